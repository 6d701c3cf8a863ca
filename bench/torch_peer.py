"""The operators of Forecost's vocabulary in PyTorch, pass by pass, for benchmarks that compare."""
import statistics

import torch
import torch.nn.functional as F

aten = torch.ops.aten
DTYPE = torch.float32
LAYOUT = torch.contiguous_format  # of images
IMAGE_OPERATORS = {"conv2d", "conv_transpose2d", "pool2d", "batch_norm"}


def random(*shape):
    values = torch.rand(*shape, dtype=torch.float32).mul_(2).sub_(1).to(DTYPE)
    return values.contiguous(memory_format=LAYOUT) if len(shape) == 4 else values


def of(text):
    op, *words = text.split()
    return op, {k: int(v) if v.lstrip("-").isdigit() else v for k, v in (w.split("=") for w in words)}


def dense(p, step):
    x, w, b = random(p["batch"], p["in_features"]), random(p["out_features"], p["in_features"]), random(p["out_features"])
    dy = random(p["batch"], p["out_features"])
    after = {"none": lambda y: y, "relu": torch.relu_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_}[p.get("activation", "none")]
    return {"forward": lambda: after(F.linear(x, w, b)), "backward_data": lambda: dy @ w,
            "backward_weights": lambda: (dy.t() @ x, dy.sum(0))}[step]


def convolution(p, step, transposed=False):
    groups, stride = p.get("groups", 1), (p.get("stride_h", 1), p.get("stride_w", 1))
    dilation, pad = (p.get("dilation_h", 1), p.get("dilation_w", 1)), (p.get("pad_top", 0), p.get("pad_left", 0))
    right = (p.get("pad_bottom", 0), p.get("pad_right", 0))
    if pad != right and not transposed:  # the framework's user pads first
        raise NotImplementedError("asymmetric padding")
    x = random(p["batch"], p["in_channels"], p["in_h"], p["in_w"])
    sides = (p["kernel_h"], p["kernel_w"])
    w = random(p["in_channels"], p["out_channels"] // groups, *sides) if transposed else \
        random(p["out_channels"], p["in_channels"] // groups, *sides)
    b = random(p["out_channels"])
    after = {"none": lambda y: y, "relu": torch.relu_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_}[p.get("activation", "none")]
    forward = lambda: after(aten.convolution(x, w, b, stride, pad, dilation, transposed, [0, 0], groups))
    if step == "forward":
        return forward
    dy = random(*forward().shape)
    mask = [True, False, False] if step == "backward_data" else [False, True, True]
    return lambda: aten.convolution_backward(dy, x, w, [p["out_channels"]], stride, pad, dilation, transposed, [0, 0], groups, mask)


def pool2d(p, step):
    x = random(p["batch"], p["channels"], p["in_h"], p["in_w"])
    if p["mode"] == "global_average":
        forward = lambda: F.adaptive_avg_pool2d(x, 1)
        dy = random(p["batch"], p["channels"], 1, 1)
        return forward if step == "forward" else lambda: dy.expand_as(x).div(p["in_h"] * p["in_w"])
    k, s = [p["kernel_h"], p["kernel_w"]], [p["stride_h"], p["stride_w"]]
    if any(p.get(side, 0) for side in ("pad_top", "pad_bottom", "pad_left", "pad_right")):
        raise NotImplementedError("padding")
    if p["mode"] == "max":
        y, indices = aten.max_pool2d_with_indices(x, k, s)
        dy = random(*y.shape)
        return (lambda: F.max_pool2d(x, k, s)) if step == "forward" else \
            lambda: aten.max_pool2d_with_indices_backward(dy, x, k, s, [0, 0], [1, 1], False, indices)
    dy = random(*F.avg_pool2d(x, k, s).shape)
    return (lambda: F.avg_pool2d(x, k, s)) if step == "forward" else \
        lambda: aten.avg_pool2d_backward(dy, x, k, s, [0, 0], False, True, None)


def batch_norm(p, step):
    c = p["channels"]
    x, dy = (random(p["batch"], c, p["height"], p["width"]) for _ in range(2))
    w, b, mean, variance = random(c), random(c), torch.zeros(c), torch.ones(c)
    training = p.get("training", 1) == 1
    if step == "forward":
        return lambda: aten.native_batch_norm(x, w, b, mean, variance, training, 0.1, 1e-5)
    _, save_mean, save_inverse = aten.native_batch_norm(x, w, b, mean, variance, True, 0.1, 1e-5)
    return lambda: aten.native_batch_norm_backward(dy, x, w, mean, variance, save_mean, save_inverse, True, 1e-5, [True] * 3)


def layer_norm(p, step):
    f = p["features"]
    x, dy, w, b = random(p["batch"] * p["rows"], f), random(p["batch"] * p["rows"], f), random(f), random(f)
    _, mean, inverse = aten.native_layer_norm(x, [f], w, b, 1e-5)
    return (lambda: aten.native_layer_norm(x, [f], w, b, 1e-5)) if step == "forward" else \
        lambda: aten.native_layer_norm_backward(dy, x, [f], mean, inverse, w, b, [True] * 3)


def softmax(p, step):
    x, dy = (random(p["batch"] * p["rows"], p["features"]) for _ in range(2))
    y = torch.softmax(x, -1)
    return (lambda: torch.softmax(x, -1)) if step == "forward" else lambda: aten._softmax_backward_data(dy, y, -1, DTYPE)


def elementwise(p, step):
    n = (p["batch"], p["features"])
    a, b, dy = random(*n).abs().add_(0.5), random(*n).abs().add_(0.5), random(*n)
    name = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow"}[p["operation"]]
    call = getattr(torch, name)
    if p.get("operand") == "scalar":
        return (lambda: call(a, 1.5)) if step == "forward" else lambda: torch.mul(dy, 1.5)
    if step == "forward":
        return lambda: call(a, b)
    y = call(a, b)
    return {"add": lambda: (dy.clone(), dy.clone()), "multiply": lambda: (dy * b, dy * a),
            "divide": lambda: (dy / b, dy.neg().mul_(y).div_(b)),
            "power": lambda: (dy * (b * a.pow(b - 1)), dy * (y * a.log()))}[p["operation"]]


def activation(p, step):
    x, dy = (random(p["batch"], p["features"]) for _ in range(2))
    f = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu}[p["function"]]
    y = f(x)
    backward = {"relu": lambda: aten.threshold_backward(dy, y, 0), "tanh": lambda: aten.tanh_backward(dy, y),
                "sigmoid": lambda: aten.sigmoid_backward(dy, y), "gelu": lambda: aten.gelu_backward(dy, x),
                "silu": lambda: aten.silu_backward(dy, x)}[p["function"]]
    return (lambda: f(x)) if step == "forward" else backward


def matmul(p, step):
    a, b = random(p["batch"], p["m"], p["k"]), random(p["batch"], p["k"], p["n"])
    dc = random(p["batch"], p["m"], p["n"])
    return (lambda: torch.bmm(a, b)) if step == "forward" else \
        lambda: (torch.bmm(dc, b.transpose(1, 2)), torch.bmm(a.transpose(1, 2), dc))


def attention(p, step):
    n = p["batch"] * p["heads"]
    q, k, v, do = (random(n, p["query_length"], p["head_features"]) for _ in range(4))
    scale = p["head_features"] ** -0.5

    def forward():
        probabilities = torch.softmax(torch.baddbmm(bias, q, k.transpose(1, 2), beta=0, alpha=scale), -1)
        return torch.bmm(probabilities, v), probabilities
    bias = torch.empty(n, p["query_length"], p["key_length"], dtype=DTYPE)
    _, probabilities = forward()

    def backward():
        dv = torch.bmm(probabilities.transpose(1, 2), do)
        ds = aten._softmax_backward_data(torch.bmm(do, v.transpose(1, 2)), probabilities, -1, DTYPE)
        dq = torch.baddbmm(none, ds, k, beta=0, alpha=scale)
        return dq, torch.baddbmm(none, ds.transpose(1, 2), q, beta=0, alpha=scale), dv
    none = torch.empty(n, p["query_length"], p["head_features"], dtype=DTYPE)
    return forward if step == "forward" else backward


def embedding(p, step):
    table = random(p["entries"], p["features"])
    ids = torch.randint(p["entries"], (p["batch"], p["length"]))
    dy = random(p["batch"], p["length"], p["features"])
    return (lambda: F.embedding(ids, table)) if step == "forward" else \
        lambda: aten.embedding_dense_backward(dy, ids, p["entries"], -1, False)


def dropout(p, step):
    x, dy = (random(p["batch"], p["features"]) for _ in range(2))
    _, mask = aten.native_dropout(x, 0.1, True)
    return (lambda: aten.native_dropout(x, 0.1, True)) if step == "forward" else \
        lambda: aten.native_dropout_backward(dy, mask, 1 / 0.9)


def reduce(p, step):
    x = random(p["batch"], p["rows"], p["features"])
    axis = {"features": 2, "rows": 1}[p["axis"]]
    call = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[p["operation"]]
    y = call(x, axis, keepdim=True)
    dy = random(*y.shape)
    backward = {"sum": lambda: dy.expand_as(x).contiguous(), "mean": lambda: dy.expand_as(x).div(x.shape[axis]),
                "max": lambda: (x == y) * dy}[p["operation"]]
    return (lambda: call(x, axis)) if step == "forward" else backward


def rnn(p, step):
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "vanilla": torch.nn.RNN}[p["cell"]]
    net = kind(p["in_features"], p["hidden_features"], p.get("layers", 1), bidirectional=p.get("bidirectional", 0) == 1).to(DTYPE)
    x = random(p["steps"], p["batch"], p["in_features"])
    if step == "forward":
        return lambda: net(x)
    with torch.enable_grad():
        x.requires_grad_()
        y, _ = net(x)
        operands = [x, *net.parameters()]
    dy = random(*y.shape)
    return lambda: torch.autograd.grad(y, operands, dy, retain_graph=True)


def transfer(p, step):
    a, b = (torch.rand(p["features"]) for _ in range(2))
    return lambda: b.copy_(a)


def parameters_of(text):
    """Shapes of the tensors that an optimizer updates."""
    op, p = of(text)
    if op == "dense":
        return [(p["out_features"], p["in_features"]), *([(p["out_features"],)] if p.get("bias", 1) else [])]
    if op == "conv2d":
        return [(p["out_channels"], p["in_channels"] // p.get("groups", 1), p["kernel_h"], p["kernel_w"]),
                *([(p["out_channels"],)] if p.get("bias", 1) else [])]
    if op == "batch_norm":
        return [(p["channels"],)] * 2
    raise NotImplementedError(op)


def update(text, optimizer):
    w = [torch.nn.Parameter(random(*shape)) for shape in parameters_of(text)]
    kind = {"sgd": lambda: torch.optim.SGD(w, 0.01), "momentum": lambda: torch.optim.SGD(w, 0.01, 0.9),
            "adagrad": lambda: torch.optim.Adagrad(w), "adadelta": lambda: torch.optim.Adadelta(w),
            "rmsprop": lambda: torch.optim.RMSprop(w), "adam": lambda: torch.optim.Adam(w), "adamw": lambda: torch.optim.AdamW(w)}
    for each in w:
        each.grad = random(*each.shape) * 0.01
    return kind[optimizer]().step


CALLS = {"dense": dense, "conv2d": convolution, "conv_transpose2d": lambda p, s: convolution(p, s, True), "pool2d": pool2d,
         "batch_norm": batch_norm, "layer_norm": layer_norm, "softmax": softmax, "elementwise": elementwise,
         "activation": activation, "matmul": matmul, "attention": attention, "embedding": embedding, "dropout": dropout,
         "reduce": reduce, "rnn": rnn, "transfer": transfer}


def call_of(step, optimizer, text, dtype, layout=torch.contiguous_format):
    """A function that runs a pass ("forward", "update", ...) of a layer given by its text once."""
    global DTYPE, LAYOUT
    DTYPE, LAYOUT = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype], layout
    if step == "update":
        return update(text, optimizer)
    op, parameters = of(text)
    return CALLS[op](parameters, step)


def interval(samples):
    """Half-width of the distribution-free 95 % interval of the median, over the median."""
    ordered = sorted(samples)
    n, below, rank, probability = len(ordered), 0.5 ** len(ordered), 0, 0.5 ** len(ordered)
    while below <= 0.025 and rank < n // 2:
        rank += 1
        probability *= (n - rank + 1) / rank
        below += probability
    low = max(rank - 1, 0)
    return (ordered[n - 1 - low] - ordered[low]) / 2 / statistics.median(ordered)
