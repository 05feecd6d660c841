"""Layers: names of their state, forward values, gradients, and buffers after the call."""

import functools

import torch

import words


class Layers:
    def __init__(self, out):
        self.out = out
        self.numbers = words.Numbers(17)
        self.real = self.numbers.real
        self.ints = self.numbers.ints

    def fill(self, module):
        """Simple numbers for parameters and buffers; variances and scales stay positive."""
        with torch.no_grad():
            for name, x in module.state_dict().items():
                if not x.dtype.is_floating_point:
                    continue
                low, high = (0.5, 1.5) if "var" in name else (-0.75, 0.75)
                x.copy_(self.real(*x.shape, low=low, high=high))

    def case(self, kind, options, module, inputs, call=None, grads=None):
        """Runs |module| on |inputs|; |grads| are the numbers of those that want a gradient."""
        self.fill(module)
        wanted = range(len(inputs)) if grads is None else grads
        inputs = [x if x is None else x.clone() for x in inputs]
        for i in wanted:
            inputs[i].requires_grad_()
        self.out.write(f"\ncase {kind}\n")
        for key, v in options.items():
            self.out.write(f"option {key} {float(v)!r}\n")
        if options.get("eval"):
            module.eval()
        for name, x in module.state_dict().items():
            self.out.write(f"state {name} {words.tensor(x)}\n")
        for x in inputs:
            grad = " grad" if x is not None and x.requires_grad else ""
            self.out.write(f"in {words.value(x)}{grad}\n")
        result = (call or module)(*inputs)
        self.out.write(f"out {words.tensor(result)}\n")
        d_result = self.real(*result.shape, low=-1, high=1)
        self.out.write(f"d_out {words.tensor(d_result)}\n")
        result.backward(d_result)
        for i in wanted:
            self.out.write(f"d_in {i} {words.tensor(inputs[i].grad)}\n")
        for name, x in module.named_parameters():
            if x.grad is None:
                continue
            grad = x.grad.to_dense() if x.grad.is_sparse else x.grad
            self.out.write(f"d_state {name} {words.tensor(grad)}\n")
        for name, x in module.named_buffers():
            self.out.write(f"after {name} {words.tensor(x)}\n")
        self.out.write("end\n")


def record_simple(r):
    nn = torch.nn
    r.case("linear", {"in": 4, "out": 3}, nn.Linear(4, 3), [r.real(2, 4)])
    r.case("linear", {"in": 4, "out": 3, "no_bias": 1}, nn.Linear(4, 3, bias=False), [r.real(4)])
    r.case("layer_norm", {"size": 5}, nn.LayerNorm(5), [r.real(2, 3, 5)])
    r.case("layer_norm", {"size": 2, "size_1": 3, "eps": 0.125}, nn.LayerNorm((2, 3), eps=0.125),
           [r.real(4, 2, 3)])
    r.case("layer_norm", {"size": 6, "no_affine": 1}, nn.LayerNorm(6, elementwise_affine=False),
           [r.real(3, 6)])


def record_convolutions(r):
    def case(make, kind, n_in, n_out, x, **options):
        said = {"in": n_in, "out": n_out}
        for key, v in options.items():
            for i, n in enumerate(v if isinstance(v, tuple) else (v,)):
                said[f"{key}_{i}" if isinstance(v, tuple) else key] = n
        if options.pop("no_bias", 0):
            options["bias"] = False
        options["kernel_size"] = options.pop("kernel")
        r.case(kind, said, make(n_in, n_out, **options), [x])

    case(torch.nn.Conv1d, "conv1d", 3, 4, r.real(2, 3, 8), kernel=(3,))
    case(torch.nn.Conv1d, "conv1d", 4, 6, r.real(2, 4, 9), kernel=(2,), stride=(2,), padding=(1,),
         dilation=(3,), groups=2, no_bias=1)
    case(torch.nn.Conv2d, "conv2d", 2, 3, r.real(2, 2, 6, 5), kernel=(3, 3), padding=(1, 1))
    case(torch.nn.Conv2d, "conv2d", 2, 2, r.real(1, 2, 6, 7), kernel=(3, 2), stride=(2, 1),
         padding=(2, 0), dilation=(1, 2), groups=2)


def record_batch_norms(r):
    one, two = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d
    r.case("batch_norm", {"size": 3}, one(3), [r.real(4, 3)])
    r.case("batch_norm", {"size": 2, "momentum": 0.5, "eps": 0.125},
           one(2, momentum=0.5, eps=0.125), [r.real(3, 2, 5)])
    r.case("batch_norm", {"size": 2, "dims": 2}, two(2), [r.real(2, 2, 3, 6)])
    r.case("batch_norm", {"size": 2, "dims": 2, "eval": 1}, two(2), [r.real(2, 2, 3, 3)])
    r.case("batch_norm", {"size": 3, "eval": 1, "no_affine": 1}, one(3, affine=False),
           [r.real(1, 3)])
    r.case("batch_norm", {"size": 3, "no_track": 1, "eval": 1}, one(3, track_running_stats=False),
           [r.real(4, 3)])
    r.case("batch_norm", {"size": 2, "cumulative": 1}, one(2, momentum=None), [r.real(3, 2)])


def attention_case(r, features, heads, inputs, grads, **options):
    said = {"features": features, "heads": heads}
    weights, by_head = options.pop("weights", 0), options.pop("by_head", 0)
    for key, v in options.items():
        names = {"kdim": "key_features", "vdim": "value_features", "bias": "no_bias"}
        said[names.get(key, key)] = 1 - v if key == "bias" else v
    said.update({"weights": weights, "by_head": by_head})

    def call(query, key, value, padding, mask):
        key = query if key is None else key
        value = key if value is None else value
        return m(query, key, value, padding, True, mask, not by_head)[weights]

    m = torch.nn.MultiheadAttention(features, heads, **options)
    r.case("multihead_attention", said, m, inputs, call, grads)


def record_attention(r):
    case = functools.partial(attention_case, r)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    causal = torch.triu(torch.ones(4, 4), 1).bool()
    case(4, 2, [r.real(3, 2, 4), None, None, None, None], [0])
    case(4, 2, [r.real(3, 2, 4), None, None, None, None], [0], weights=1)
    case(4, 2, [r.real(3, 2, 4), None, None, None, None], [0], weights=1, by_head=1)
    case(6, 3, [r.real(2, 4, 6), None, None, None, causal], [0], batch_first=True)
    case(4, 1, [r.real(2, 5, 4), r.real(2, 3, 4), None, padding, None], [0, 1], batch_first=True)
    case(4, 2, [r.real(2, 2, 4), r.real(3, 2, 4), r.real(3, 2, 4), padding, r.real(2, 3)],
         [0, 1, 2], bias=False)
    case(4, 2, [r.real(2, 2, 4), r.real(3, 2, 3), r.real(3, 2, 5), None, r.real(4, 2, 3)],
         [0, 1, 2], kdim=3, vdim=5)
    case(4, 2, [r.real(4, 4), None, None, None, causal], [0])
    case(4, 2, [r.real(4, 4), None, None, None, causal], [0], weights=1)


def record_own_keys(r):
    case = functools.partial(attention_case, r)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    causal = torch.triu(torch.ones(3, 3), 1).bool()
    case(4, 2, [r.real(3, 2, 4), None, None, None, None], [0], add_bias_kv=True)
    case(4, 2, [r.real(3, 2, 4), None, None, None, causal], [0], add_zero_attn=True, weights=1)
    case(4, 2, [r.real(2, 2, 4), r.real(3, 2, 3), r.real(3, 2, 5), padding, r.real(4, 2, 3)],
         [0, 1, 2], kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True, bias=False)
    case(6, 3, [r.real(2, 3, 6), None, None, padding, causal], [0], add_bias_kv=True,
         add_zero_attn=True, batch_first=True, weights=1, by_head=1)
    case(4, 1, [r.real(3, 4), None, None, None, causal], [0], add_bias_kv=True)


def record_encoder_layers(r):
    def case(features, heads, inputs, **options):
        said = {"features": features, "heads": heads}
        for key, v in options.items():
            said[{"dim_feedforward": "feedforward", "activation": "gelu"}.get(key, key)] = \
                1 if v == "gelu" else v
        said["dropout"] = 0
        m = torch.nn.TransformerEncoderLayer(features, heads, dropout=0.0, **options)
        r.case("transformer_encoder_layer", said, m, inputs,
               lambda x, padding, mask: m(x, mask, padding), [0])

    padding = torch.tensor([[False, False, True], [False, True, True]])
    causal = torch.triu(torch.ones(3, 3), 1).bool()
    case(4, 2, [r.real(3, 2, 4), None, None], dim_feedforward=5)
    case(4, 2, [r.real(2, 3, 4), padding, None], dim_feedforward=3, batch_first=True,
         activation="gelu")
    case(6, 2, [r.real(3, 2, 6), padding, causal], dim_feedforward=4, norm_first=True,
         layer_norm_eps=1e-3)
    case(4, 1, [r.real(2, 3, 4), None, causal], dim_feedforward=6, batch_first=True,
         norm_first=True, activation="gelu")


def record_embeddings(r):
    nn = torch.nn
    at = torch.tensor([[1, 4, 1], [0, 2, 2]])
    r.case("embedding", {"count": 5, "features": 3}, nn.Embedding(5, 3), [at], grads=[])
    r.case("embedding", {"count": 5, "features": 2, "sparse": 1}, nn.Embedding(5, 2, sparse=True),
           [at], grads=[])
    for sparse in (0, 1):
        r.case("embedding",
               {"count": 5, "features": 2, "sparse": sparse, "has_padding": 1, "padding_idx": -3},
               nn.Embedding(5, 2, padding_idx=-3, sparse=bool(sparse)), [at], grads=[])


def record_bags(r):
    at, offsets = torch.tensor([1, 4, 1, 0, 2, 2, 3]), torch.tensor([0, 3, 3, 4])
    square = torch.tensor([[1, 4, 1], [2, 2, 0], [3, 3, 3]])
    modes = ["mean", "sum", "max"]
    for mode in range(3):
        def case(inputs, **options):
            m = torch.nn.EmbeddingBag(5, 3, mode=modes[mode], **options)
            said = {"count": 5, "features": 3, "mode": mode}
            said.update({k: 1 if v is True else v for k, v in options.items()})
            if "padding_idx" in options:
                said["has_padding"] = 1
            grads = [2] if inputs[2] is not None else []
            r.case("embedding_bag", said, m, inputs, m, grads)

        case([square, None, None])
        case([at, offsets, None])
        case([square, None, None], padding_idx=3)
        case([at, torch.tensor([0, 3, 3, 4, 7]), None], include_last_offset=True)
        if mode < 2:
            case([at, offsets, None], padding_idx=-4, sparse=True)
        if mode == 1:
            case([at, offsets, r.real(7)])
            case([square, None, r.real(3, 3)], sparse=True)


def record_recurrent(r):
    rnn_utils = torch.nn.utils.rnn

    def case(kind, n_in, hidden, inputs, **options):
        said = {"in": n_in, "hidden": hidden}
        for key, v in options.items():
            name = {"num_layers": "layers", "bias": "no_bias", "nonlinearity": "relu"}.get(key, key)
            said[name] = 1 - v if key == "bias" else 1 if v == "relu" else v
        m = getattr(torch.nn, kind.upper())(n_in, hidden, **options)

        def call(x, lengths, *states):
            states = None if states[0] is None else states if len(states) == 2 else states[0]
            first = options.get("batch_first", False)
            if lengths is not None:
                length = x.shape[1 if first else 0]
                x = rnn_utils.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
            y, state = m(x, states)
            if lengths is not None:
                y, _ = rnn_utils.pad_packed_sequence(y, first, total_length=length)
            parts = [y] + (list(state) if kind == "lstm" else [state])
            return torch.cat([p.reshape(-1) for p in parts])

        states = [None, None] if kind == "lstm" else [None]
        inputs = inputs + states if len(inputs) == 2 else inputs
        r.case(kind, said, m, inputs, call,
               [i for i, x in enumerate(inputs) if i != 1 and x is not None])

    lengths = torch.tensor([2, 4, 1])
    for kind in ("lstm", "gru", "rnn"):
        def states(*sizes):
            return [r.real(*sizes, low=-1, high=1) for _ in range(2 if kind == "lstm" else 1)]

        case(kind, 3, 4, [r.real(5, 2, 3), None])
        case(kind, 2, 3, [r.real(3, 4, 2), None] + states(2, 3, 3), num_layers=2, batch_first=True)
        case(kind, 2, 3, [r.real(4, 3, 2), None] + states(4, 3, 3), num_layers=2,
             bidirectional=True, bias=False)
        case(kind, 2, 3, [r.real(4, 3, 2), lengths] + states(4, 3, 3), num_layers=2,
             bidirectional=True)
        case(kind, 2, 3, [r.real(3, 4, 2), lengths], batch_first=True)
        case(kind, 2, 3, [r.real(4, 2), None] + states(1, 3))
    case("rnn", 2, 3, [r.real(4, 3, 2), lengths, r.real(2, 3, 3)], bidirectional=True,
         nonlinearity="relu")


def record_layers(out):
    r = Layers(out)
    record_simple(r)
    record_convolutions(r)
    record_batch_norms(r)
    record_attention(r)
    record_encoder_layers(r)
    record_embeddings(r)
    record_recurrent(r)
    record_bags(r)
    record_own_keys(r)
