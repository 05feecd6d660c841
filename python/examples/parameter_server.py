"""A parameter server that answers the gradients of all trainers at once, as in PyTorch's tutorial on batch RPC processing.

    gradwire run -n 4 -- python3 python/examples/parameter_server.py

Worker 0 has the parameters of a small network, the others learn y = sin(3 x0) + sin(3 x1) from points of their own. Each
trainer sends its gradients; when those of all have arrived, the server steps and replies to all with the new parameters.
No thread of the server waits.
"""
import argparse

import gradwire as gw
import numpy as np

HIDDEN = 64


class ParameterServer:
    """The parameters, and Adam's moments of them."""

    def __init__(self, trainers, lr):
        draw = np.random.default_rng(1).normal
        self.trainers, self.lr, self.step = trainers, lr, 0
        self.parameters = [draw(0, 0.7, (2, HIDDEN)), np.zeros(HIDDEN), draw(0, 0.125, (HIDDEN, 1)), np.zeros(1)]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.gradients, self.reply = [], gw.Future()

    def get(self):
        return self.parameters

    @gw.async_execution
    def update(self, gradients):
        """Returns a future of the next parameters, which resolves when all trainers have sent their gradients."""
        self.gradients.append(gradients)
        reply = self.reply
        if len(self.gradients) == self.trainers:
            self.apply([np.mean(of_all, axis=0) for of_all in zip(*self.gradients)])
            self.gradients, self.reply = [], gw.Future()
            reply.set_result(self.parameters)
        return reply

    def apply(self, gradients):
        self.step += 1
        for p, (m, v), d in zip(self.parameters, self.moments, gradients):
            m += 0.1 * (d - m)
            v += 0.001 * (d * d - v)
            p -= self.lr * (m / (1 - 0.9**self.step)) / (np.sqrt(v / (1 - 0.999**self.step)) + 1e-8)


def loss_and_gradients(parameters, x, y):
    """The mean squared error of the network, and its gradients."""
    w1, b1, w2, b2 = parameters
    h = np.tanh(x @ w1 + b1)
    error = h @ w2 + b2 - y
    d = 2 * error / len(x)
    dh = d @ w2.T * (1 - h * h)
    return float((error * error).mean()), [x.T @ dh, dh.sum(0), h.T @ d, d.sum(0)]


def train(server, steps):
    """Runs on each trainer; returns the mean loss of the last 50 steps."""
    rng = np.random.default_rng(gw.rank())
    parameters, losses = server.rpc_sync().get(), []
    for _ in range(steps):
        x = rng.uniform(-1, 1, (64, 2))
        loss, gradients = loss_and_gradients(parameters, x, np.sin(3 * x).sum(1, keepdims=True))
        parameters = server.rpc_sync().update(gradients)
        losses.append(loss)
    return float(np.mean(losses[-50:]))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=1000)
    steps = options.parse_args().steps
    with gw.init():
        if gw.rank() == 0:
            trainers = gw.workers()[1:]
            server = gw.RRef(ParameterServer(len(trainers), lr=0.01))
            for worker, loss in zip(trainers, gw.rpc_sync_all(trainers, train, (server, steps), timeout=0)):
                print(f"{worker.name}: loss {loss:.5f}")


if __name__ == "__main__":
    main()
