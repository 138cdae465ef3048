"""The training steps of bench/steps.cpp in PyTorch: eager, compiled, and captured in one CUDA graph.

  python3 torch_steps.py [--device cpu|cuda] [--workload xor|mlp|mlp4096|all] [--json FILE]
"""
import torch
from torch import nn

from measuring import BATCH, Report, cpu_name, measure, parse_options

EAGER, FUSED, COMPILE, OVERHEAD, GRAPH = VARIANTS = (
    "eager", "eager, fused Adam", "compile", "compile, reduce-overhead", "one CUDA graph")


def make(workload, device):
    if workload == "xor":
        model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
        loss = nn.functional.mse_loss
    else:
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                              nn.Linear(1024, 10))
        x = torch.randn(BATCH[workload], 784)
        y = torch.randint(0, 10, (BATCH[workload],))
        loss = nn.functional.cross_entropy
    return model.to(device), x.to(device), y.to(device), loss


def make_step(variant, model, x, y, loss):
    graph = variant == GRAPH
    fused = variant != EAGER
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused, capturable=graph)

    def objective():
        return loss(model(x), y)

    if variant in (COMPILE, OVERHEAD):
        objective = torch.compile(
            objective, mode="reduce-overhead" if variant == OVERHEAD else "default")

    def step():
        if variant == OVERHEAD:
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        objective().backward()
        optimizer.step()

    if not graph:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    return captured.replay


def main():
    options = parse_options(__doc__.splitlines()[0], ("cpu", "cuda"), VARIANTS)
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    on_gpu = options.device == "cuda"
    versions = {"torch": torch.__version__}
    if on_gpu:
        versions["cuda"] = torch.version.cuda
    report = Report("torch", versions, torch.cuda.get_device_name() if on_gpu else cpu_name(), options)
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    for workload in options.workloads:
        for variant in options.variants:
            if not on_gpu and variant in (OVERHEAD, GRAPH):  # both are about CUDA graphs
                continue
            torch._dynamo.reset()
            torch.manual_seed(0)
            try:
                model, x, y, loss = make(workload, options.device)
                result = measure(make_step(variant, model, x, y, loss), synchronize, options.steps)
                with torch.no_grad():
                    result["loss_after"] = loss(model(x), y).item()
            except Exception as error:  # a variant that cannot run here must not hide the others
                report.failed(workload, variant, error)
            else:
                report.add(workload, variant, result)


if __name__ == "__main__":
    main()
