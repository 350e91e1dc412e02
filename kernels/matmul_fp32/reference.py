"""Product of two square matrices in float32."""

import torch
import torch.nn as nn

M = 4096
K = 4096
N_COLS = 4096


class Model(nn.Module):
    """a @ b."""

    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N_COLS)]


def get_init_inputs():
    return []
