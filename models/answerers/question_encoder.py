"""A question as a vector: embedding and two-layer LSTM (Das et al. 2018, Sec. 4, "Language").

Axes: B batch, L words, D hidden size.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

PAD = 0


class QuestionEncoder(nn.Module):
    """Encodes word ids (B, L), right-padded with 0, as the top layer's state after each question's last word, (B, D).

    `hidden_size` is the paper's 128; the released code has 64.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding_size: int = 64,
        hidden_size: int = 128,
        num_layers: int = 2,
        dropout: float = 0.5,
    ):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(vocabulary_size, embedding_size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.rnn = nn.LSTM(
            embedding_size, hidden_size, num_layers, batch_first=True, dropout=dropout if num_layers > 1 else 0.0
        )

    def forward(self, questions: Int64[Tensor, "B L"]) -> Float[Tensor, "B D"]:
        # Padding comes last, so it cannot affect the state after the last word. This needs no lengths on the CPU, as
        # packed sequences do.
        outputs, _ = self.rnn(self.embedding(questions))
        last = (questions != PAD).sum(1).sub(1).clamp(min=0)
        return outputs[torch.arange(len(questions), device=questions.device), last]
