"""Scaled dot-product attention in float16, without a mask."""

import torch
import torch.nn as nn

BATCH = 32
HEADS = 32
LENGTH = 1024
DEPTH = 64


class Model(nn.Module):
    """softmax(q k^T / sqrt(depth)) v for every head."""

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, DEPTH)
    return [torch.randn(shape, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
