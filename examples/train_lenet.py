#!/usr/bin/env python3
"""Trains a LeNet in PyTorch on Volta's digits, and saves the checkpoint that examples/load_pytorch.cpp reads.

    load_pytorch --export digits.npz
    train_lenet.py digits.npz examples/data/lenet_digits.pt

Needs torch and numpy."""
import sys

import numpy as np
import torch
from torch import nn

EPOCHS = 6


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(16 * 5 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                                        nn.Linear(84, 10))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def main(digits, checkpoint):
    torch.manual_seed(1)
    data = {name: torch.from_numpy(array) for name, array in np.load(digits).items()}
    images, labels = data["train_images"].float() / 255, data["train_labels"].long()
    model = LeNet()
    steps = EPOCHS * (len(labels) // 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for epoch in range(1, EPOCHS + 1):
        total = 0
        for batch in torch.randperm(len(labels)).split(64)[:len(labels) // 64]:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch}  loss {total / (len(labels) // 64):.4f}")

    # f16 weights make the file half as large. The expected logits are computed with the rounded weights.
    halves = {name: value.half() for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.float() for name, value in halves.items()})
    check = data["test_images"][:8].clone()
    with torch.no_grad():
        logits = model(check.float() / 255)
    torch.save({"model": halves, "epoch": EPOCHS, "check": {"images": check, "logits": logits}}, checkpoint)


if __name__ == "__main__":
    main(*sys.argv[1:])
