"""Question-only baselines: accuracies that the wording of a question set allows without any view.

There are four, by split and question type, each with a 95 % interval:
- *chance*: the mean over a split's questions of 1/k, for k different answers to the question's string in that split. It
  exists only where each of the k occurs equally often (balance `paired`), so that no question-only model does better.
- *majority*: the most frequent answer of train to the same string (`data.questions.balance.MajorityBaseline`).
- *bag of words*: a linear map of the words' counts.
- *LSTM*: `models.answerers.frame_attention.QuestionOnly`; the results table calls it "question only".

The same string always gets the same prediction. The two networks therefore learn from the different strings of train,
with the counts of their answers as soft targets. This gives the same loss as all repetitions, and is far cheaper. The
loss on val decides when to stop; test decides nothing. Answers that train does not have count as missed.

Axes: S different questions, B of them in a batch, L words, A answers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from eqa.data.questions.balance import MajorityBaseline
from eqa.data.questions.counts import Asked
from eqa.data.vocabulary import PAD, Vocabulary
from eqa.envs.episode import Episode
from eqa.envs.metrics import wilson_interval
from eqa.models.answerers.frame_attention import QuestionOnly

Guesses = dict[tuple[str, str], str]  # (question type, question) -> answer

ALL = "all"  # in the place of a question type
MODELS = CHANCE, MAJORITY, BAG_OF_WORDS, LSTM = ("chance", "majority", "bag of words", "LSTM")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Number of `num` questions that a model gets right; for chance, the expected number."""

    model: str
    split: str
    question_type: str  # or ALL
    right: float
    num: int

    @property
    def mean(self) -> float:
        return self.right / self.num

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval (Wilson), as if questions were drawn independently of each other."""
        return wilson_interval(self.right, self.num)


@dataclass(frozen=True, slots=True)
class Training:
    """Training settings of the two networks: Adam, with a learning rate that falls to 0 along a cosine."""

    lr: float
    batch: int = 128  # strings a step: all where there are no more, else drawn as often as they are asked
    most_steps: int = 800
    check_every: int = 20  # steps between two looks at val
    patience: int = 10  # looks without a better one, after which it stops


LSTM_TRAINING = Training(lr=0.01)


class BagOfWords(nn.Module):
    """Answers from the words' counts alone, in any order. Same interface as `QuestionOnly`.

    `</s>` ends each question, so its row is the bias. A word that train does not have leaves the logits as they are.
    """

    def __init__(self, vocabulary_size: int, num_answers: int) -> None:
        super().__init__()
        self.logits = nn.EmbeddingBag(vocabulary_size, num_answers, mode="sum", padding_idx=PAD)
        nn.init.zeros_(self.logits.weight)

    def forward(
        self, features: Tensor | None, questions: Int64[Tensor, "S L"], mask: Tensor | None = None
    ) -> Float[Tensor, "S A"]:
        return self.logits(questions)


def blind_accuracies(
    asked: Mapping[str, Asked],
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    bag_of_words: Training = Training(lr=0.05, batch=1 << 14, most_steps=300),
    lstm: Training = LSTM_TRAINING,
) -> list[Accuracy]:
    """Accuracies of every model by split and question type, and over all types. A split without questions has no entry.

    `asked` (see `data.questions.counts`) must have train. ValueError if train is empty, or has an answer that
    `vocabulary` has not.
    """
    if not asked.get("train"):
        raise ValueError(f"train: expected questions, got none (splits: {list(asked)}); a baseline learns from them")
    guesses = {MAJORITY: _guesses_of_majority(asked, vocabulary)}
    given = (asked["train"], asked.get("val", {}), vocabulary)
    for name, kind, training in ((BAG_OF_WORDS, BagOfWords, bag_of_words), (LSTM, _small_lstm, lstm)):
        model = _fitted(kind, *given, seed=seed, training=training)
        guesses[name] = {split: _guesses_of_network(model, found, vocabulary) for split, found in asked.items()}
    rows = []
    for split, found in asked.items():
        if found and is_even(found):
            rows += _accuracies(CHANCE, split, {key: c.total() / len(c) for key, c in found.items()}, found)
        for name, of_split in guesses.items():
            first = of_split[split]
            rows += _accuracies(name, split, {key: c[first[key]] for key, c in found.items()}, found)
    return rows


def is_even(asked: Asked) -> bool:
    """True if each string has each of its answers equally often, so that chance exists."""
    return all(len(set(answers.values())) == 1 for answers in asked.values())


def blind_lstm(train: Asked, val: Asked, vocabulary: Vocabulary, *, seed: int = 0) -> QuestionOnly:
    """Fits the strongest of them, the blind baseline of every table. Takes seconds."""
    return _fitted(_small_lstm, train, val, vocabulary, seed=seed, training=LSTM_TRAINING)


def _fitted(
    kind: Callable[[int, int], nn.Module],
    train: Asked,
    val: Asked,
    vocabulary: Vocabulary,
    *,
    seed: int,
    training: Training,
) -> nn.Module:
    """Fits with a generator of its own: equal seeds give equal models, and other code's draws stay as they are."""
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        return fit(kind(len(vocabulary.words), len(vocabulary.answers)), train, val, vocabulary, training=training)


def _accuracies(model: str, split: str, right: Mapping[tuple[str, str], float], asked: Asked) -> list[Accuracy]:
    """Sums the right answers of each string up to types and to all."""
    sums, totals = Counter(), Counter()
    for key, answers in asked.items():
        for kind in (key[0], ALL):
            sums[kind] += right[key]
            totals[kind] += answers.total()
    return [Accuracy(model, split, kind, sums[kind], totals[kind]) for kind in totals]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limits torch to one thread: matrices this small gain nothing from more.

    Several threads lose much time where other work holds the cores that they wait for.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _small_lstm(vocabulary_size: int, num_answers: int) -> QuestionOnly:
    """Network with half the answerers' width and wider spread word embeddings: it has only seconds to learn."""
    network = QuestionOnly(vocabulary_size, num_answers, hidden_size=64, dropout=0.2)
    nn.init.normal_(network.question.embedding.weight)
    return network


def _guesses_of_majority(asked: Mapping[str, Asked], vocabulary: Vocabulary) -> dict[str, Guesses]:
    learnt = ((key, a, n) for key, answers in asked["train"].items() for a, n in answers.items())
    baseline = MajorityBaseline((e for key, a, n in learnt for e in repeat(_bare(key, a), n)), vocabulary)
    guesses = {}
    for split, found in asked.items():
        first = baseline.rankings([_bare(key) for key in found])[:, 0]
        guesses[split] = {key: vocabulary.answers[i] for key, i in zip(found, first, strict=True)}
    return guesses


def _bare(key: tuple[str, str], answer: str = "") -> Episode:
    question_type, question = key
    return Episode("", "", question, answer, question_type, "")


def _guesses_of_network(model: nn.Module, asked: Asked, vocabulary: Vocabulary) -> Guesses:
    if not asked:
        return {}
    first = _logits(model, _words(asked, vocabulary)).argmax(1).tolist()
    return {key: vocabulary.answers[i] for key, i in zip(asked, first, strict=True)}


def _words(asked: Asked, vocabulary: Vocabulary) -> Int64[Tensor, "S L"]:
    return torch.from_numpy(vocabulary.encode_batch([question for _, question in asked], strict=False))


def _logits(model: nn.Module, words: Int64[Tensor, "S L"]) -> Float[Tensor, "S A"]:
    model.eval()
    with torch.no_grad():
        return torch.cat([model(None, some) for some in words.split(4096)])


def _counts(asked: Asked, vocabulary: Vocabulary) -> Float[Tensor, "S A"]:
    """Number of times that each answer is right; answers outside the vocabulary are left out."""
    places = {answer: i for i, answer in enumerate(vocabulary.answers)}
    counts = np.zeros((len(asked), len(places)), np.float32)
    for row, answers in zip(counts, asked.values(), strict=True):
        for answer, number in answers.items():
            if answer in places:
                row[places[answer]] = number
    return torch.from_numpy(counts)


def soft_cross_entropy(logits: Float[Tensor, "S A"], counts: Float[Tensor, "S A"]) -> Float[Tensor, ""]:
    """Mean of the answers' cross-entropy over all questions: each string weighs as much as it is counted."""
    return -(counts * logits.log_softmax(1)).sum() / counts.sum()


def fit(model: nn.Module, train: Asked, val: Asked, vocabulary: Vocabulary, *, training: Training) -> nn.Module:
    """Trains `model` and returns it as it was at the smallest loss on val.

    If val has no answer of the vocabulary, it is returned as it is after the last step. Draws from torch's generator.
    """
    words, counts = _words(train, vocabulary), _counts(train, vocabulary)
    judge = _loss_on(val, vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.most_steps)
    best, best_loss, since = None, float("inf"), 0
    for step in range(1, training.most_steps + 1):
        some_words, some_counts = _batch(words, counts, training.batch)
        model.train()
        optimizer.zero_grad()
        soft_cross_entropy(model(None, some_words), some_counts).backward()
        optimizer.step()
        falling.step()
        if judge and step % training.check_every == 0:
            loss = judge(model)
            since = 0 if loss < best_loss else since + 1
            if since == 0:
                best, best_loss = deepcopy(model.state_dict()), loss
            if since == training.patience:
                break
    if best:
        model.load_state_dict(best)
    return model.eval()


def _batch(
    words: Int64[Tensor, "S L"], counts: Float[Tensor, "S A"], size: int
) -> tuple[Int64[Tensor, "B L"], Float[Tensor, "B A"]]:
    """All strings, or `size` of them drawn as often as they are asked, each with the distribution of its answers.

    Even draws with weights give the same mean, but a few frequent strings then make the gradient noisy.
    """
    if size >= len(words):
        return words, counts
    asked = counts.sum(1)
    chosen = torch.multinomial(asked, size, replacement=True)
    return words[chosen], counts[chosen] / asked[chosen, None]


def _loss_on(asked: Asked, vocabulary: Vocabulary) -> Callable[[nn.Module], float] | None:
    """The loss on a split, None if it has no answer of the vocabulary."""
    counts = _counts(asked, vocabulary)
    if not counts.any():
        return None
    words = _words(asked, vocabulary)
    return lambda model: float(soft_cross_entropy(_logits(model, words), counts))
