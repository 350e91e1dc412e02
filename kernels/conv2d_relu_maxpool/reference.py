"""Convolution, ReLU and max-pooling in a row, as at the head of an image network."""

import torch
import torch.nn as nn

BATCH = 100
IN_CHANNELS = 3
OUT_CHANNELS = 96
SIDE = 224
KERNEL = 11
STRIDE = 4
PADDING = 2
POOL = 3
POOL_STRIDE = 2


class Model(nn.Module):
    """Two-dimensional convolution with bias, cut off below zero, then the maximum of overlapping windows."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, pool_size, pool_stride):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.pool = nn.MaxPool2d(pool_size, stride=pool_stride)

    def forward(self, x):
        return self.pool(torch.relu(self.conv(x)))


def get_inputs():
    return [torch.rand(BATCH, IN_CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL, STRIDE, PADDING, POOL, POOL_STRIDE]
