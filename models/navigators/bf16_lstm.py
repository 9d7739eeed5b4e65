"""`LSTM`: PyTorch's LSTM, with training in bfloat16 on a CPU done in few large products.

PyTorch hands an LSTM over many steps to oneDNN, whose gradient in bfloat16 is slower than in float32. Here each step is
one product with the recurrent weights. The gradient of each weight matrix is one product over all steps.

Axes: B walks, T steps, I inputs, H hidden, in the order of PyTorch's gates: input, forget, cell, output.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

DTYPE = torch.bfloat16  # of the products; gates, states and gradients are float32


class LSTM(nn.LSTM):
    """One layer, one direction, batch first; parameters, arguments and results are those of `nn.LSTM`.

    Under bfloat16 autocast on a CPU, it computes as this module says if a gradient is needed, else as `nn.LSTM`.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size, batch_first=True)

    def forward(
        self, steps: Float[Tensor, "B T I"] | PackedSequence, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Float[Tensor, "B T H"] | PackedSequence, tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]]]:
        """Hidden states after each step, and hidden and cell state after the last step."""
        learns = torch.is_grad_enabled() and isinstance(steps, Tensor) and steps.device.type == "cpu"
        if not (learns and torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == DTYPE):
            return super().forward(steps, state)
        if state is None:
            zeros = torch.zeros(1, len(steps), self.hidden_size)
            state = (zeros, zeros)
        hidden, cell = (value.squeeze(0).float() for value in state)
        weights = (self.weight_ih_l0, self.weight_hh_l0, self.bias_ih_l0 + self.bias_hh_l0)
        outputs, last = _Unrolled.apply(steps.float(), hidden, cell, *weights)
        return outputs, (outputs[:, -1].unsqueeze(0), last.unsqueeze(0))


class _Unrolled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, steps, hidden, cell, w_input, w_hidden, bias):
        batch, num_steps, size = steps.shape[0], steps.shape[1], hidden.shape[1]
        # tanh(x) = 2 sigmoid(2x) - 1, so one call computes all gates; doubling a bfloat16 is exact.
        twice = torch.ones(4, size, 1).index_fill_(0, torch.tensor(2), 2.0).view(-1, 1)
        inputs = steps.transpose(0, 1).to(DTYPE).contiguous()
        projected = F.linear(inputs, (w_input * twice).to(DTYPE), (bias * twice.squeeze(1)).to(DTYPE))
        recurrent = (w_hidden * twice).to(DTYPE)
        gates = torch.empty(num_steps, batch, 4, size)
        hiddens = torch.empty(num_steps + 1, batch, size, dtype=DTYPE)
        cells, squashed = torch.empty(num_steps + 1, batch, size), torch.empty(num_steps, batch, size)
        outputs = torch.empty(num_steps, batch, size)
        hiddens[0], cells[0] = hidden, cell
        for t in range(num_steps):
            at = gates[t]
            at.view(batch, -1).copy_(projected[t]).add_(F.linear(hiddens[t], recurrent)).sigmoid_()
            at[:, 2].mul_(2).sub_(1)
            torch.mul(at[:, 1], cells[t], out=cells[t + 1]).addcmul_(at[:, 0], at[:, 2])
            torch.mul(cells[t + 1], 2, out=squashed[t]).sigmoid_().mul_(2).sub_(1)
            torch.mul(at[:, 3], squashed[t], out=outputs[t])
            hiddens[t + 1] = outputs[t]
        ctx.save_for_backward(inputs, w_input, w_hidden, gates, hiddens, cells, squashed)
        return outputs.transpose(0, 1), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, d_outputs, d_cell):
        inputs, w_input, w_hidden, gates, hiddens, cells, squashed = ctx.saved_tensors
        num_steps, batch, _, size = gates.shape
        d_outputs, back = d_outputs.transpose(0, 1), w_hidden.t().to(DTYPE).contiguous()
        d_gates = torch.empty(gates.shape, dtype=DTYPE)
        d_hidden, d_cell = torch.zeros(batch, size), d_cell.clone()
        slope, product = torch.empty(batch, 4, size), torch.empty(batch, 4, size)
        for t in reversed(range(num_steps)):
            at, tanh = gates[t], squashed[t]
            d_hidden = d_hidden + d_outputs[t]
            d_cell.addcmul_(d_hidden * at[:, 3], 1 - tanh * tanh)
            torch.sub(1, at, out=slope).mul_(at)  # of a sigmoid
            slope[:, 2] = 1 - at[:, 2].square()
            product[:, 0], product[:, 1], product[:, 2] = at[:, 2], cells[t], at[:, 0]
            product[:, :3].mul_(d_cell.unsqueeze(1))
            torch.mul(d_hidden, tanh, out=product[:, 3])
            torch.mul(product, slope, out=product)
            d_gates[t] = product
            d_cell.mul_(at[:, 1])
            d_hidden = F.linear(d_gates[t].view(batch, -1), back).float()
        flat = d_gates.view(num_steps * batch, 4 * size)
        d_inputs = (flat @ w_input.to(DTYPE)).float().view(num_steps, batch, -1).transpose(0, 1)
        d_w_input = (flat.t() @ inputs.flatten(0, 1)).float()
        d_w_hidden = (flat.t() @ hiddens[:-1].flatten(0, 1)).float()
        return d_inputs, d_hidden, d_cell, d_w_input, d_w_hidden, flat.float().sum(0)
