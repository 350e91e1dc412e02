import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(100, 64)

    def forward(self, x):
        return self.e(x)


def get_inputs():
    return [torch.randint(0, 100, (64, 32))]
