"""The first MLP step of a process, with every cache empty and then with the caches that this run left.

  python3 first_step.py [--program build/release/bench/volta_steps] [--device cpu|cuda:0|opencl:0]
                        [--workload mlp] [--tf32] [--json FILE]
"""
import argparse
import json
import os
import subprocess
import tempfile

WARM_RUNS = 3


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bench/volta_steps")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workload", choices=("xor", "mlp", "mlp4096"), default="mlp")
    parser.add_argument("--tf32", action="store_true", help="matrix products in tf32")
    parser.add_argument("--json", default="", help="file to write")
    return parser.parse_args()


def first_step(options, folder):
    """Runs one new process and returns its report. The kernels of Volta and of the drivers are cached in the folder."""
    report = os.path.join(folder, "report.json")
    caches = {name: os.path.join(folder, name.lower())
              for name in ("VOLTA_CACHE_DIR", "CUDA_CACHE_PATH", "POCL_CACHE_DIR")}
    for path in caches.values():
        os.makedirs(path, exist_ok=True)
    command = [options.program, "--device", options.device, "--workload", options.workload, "--first",
               "--json", report, *(["--tf32"] if options.tf32 else [])]
    subprocess.run(command, env={**os.environ, **caches}, check=True, stdout=subprocess.DEVNULL)
    with open(report, encoding="utf-8") as file:
        return json.load(file)


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory() as folder:
        runs = [("cold", first_step(options, folder))]
        runs += [("warm", first_step(options, folder)) for _ in range(WARM_RUNS)]
    combined = {**runs[0][1], "results": []}
    combined["command"] = combined["command"].split(" --json")[0]  # without the temporary file
    print(f"{'cache':<6} {'first step ms':>14} {'until ready ms':>15} {'compiled':>9} {'loaded':>7}")
    for variant, run in runs:
        result = {**run["results"][0], "variant": variant}
        combined["results"].append(result)
        print(f"{variant:<6} {result['first_step_ms']:14.1f} {result['ready_ms']:15.1f} "
              f"{result['compilations']:9} {result['kernels_loaded']:7}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(combined, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
