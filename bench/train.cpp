// Trainer and predictor speed of a 3 x 256 network, beside the machine's own GEMM rate. Run through
// bench/train.sh, which adds python3-torch and the figures of two ranks.
//   bench_train [SECONDS]      under mpirun: data-parallel over the ranks
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "core/random.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "mpi/collective.hpp"
#include "train/ensemble_trainer.hpp"
#include "train/gemm.hpp"

namespace {

using namespace forecost;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t inputs = 40;
const std::vector<std::int64_t> hidden{256, 256, 256};

Floats normal(std::size_t n) {
  Random random(1);
  Floats values(n);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

/// Best of repeated calls within the time: other programs only ever slow a call down.
template <class Action>
double best_s(double budget_s, Action action) {
  double best = 1e30;
  const auto begin = Clock::now();
  action();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < budget_s) {
    const auto start = Clock::now();
    action();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const World world(argc, argv);
  const auto collective = make_collective(world);
  const double budget_s = argc > 1 ? std::atof(argv[1]) : 2;
  const Gemm& gemm = best_gemm();
  const MlpShape shape(inputs, hidden);
  TextTable table({"what", ">batch", ">ranks", ">steps/s", ">rows/s", ">GFLOP/s"});

  // The limit: the network's own largest product.
  constexpr std::int64_t m = 1024, n = 256;
  const Floats a = normal(m * n), b = normal(n * n);
  Floats c(m * n);
  const double gemm_s = best_s(budget_s / 4, [&] {
    gemm.multiply(m, n, n, {a.data(), n}, {b.data(), n}, 0, c.data(), n);
  });
  const double gemm_rate = 2.0 * m * n * n / gemm_s;
  table.add({fmt::format("GEMM 1024 x 256 x 256 ({})", gemm.name()), "", "1", "", "",
             fmt::format("{:.1f}", gemm_rate / 1e9)});

  for (const std::int64_t batch : {128, 1024}) {
    Recipe recipe{};
    recipe.hidden = hidden;
    recipe.members = 1;
    recipe.loss = Loss::absolute;
    recipe.schedule = RateSchedule::halving;
    recipe.learning_rate = 1e-4;
    const std::int64_t rows = 8 * batch;  // an epoch of 8 steps
    const Floats x = normal(static_cast<std::size_t>(rows * inputs)),
                 y = normal(static_cast<std::size_t>(rows));
    EnsembleTrainer trainer({.recipe = recipe,
                             .shape = shape,
                             .x = x,
                             .y = y,
                             .epochs = 1 << 30,
                             .batch = batch,
                             .seed = 1,
                             .sharing = Sharing::fast,
                             .members = {0}},
                            make_cpu_engine, *collective);
    // All ranks run the same number of epochs: the sums inside are collective.
    double best = 1e30;
    for (int epoch = 0;
         epoch < static_cast<int>(budget_s * 300 * 128 / static_cast<double>(batch)) + 5; ++epoch) {
      const auto start = Clock::now();
      trainer.run_epoch();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    // Forward, gradient of the weights, gradient of the inputs but of the first layer's.
    const double flops = static_cast<double>(rows) *
                         (6 * shape.macs() - 2 * static_cast<double>(inputs * hidden[0]));
    table.add({"train 3 x 256", std::to_string(batch), std::to_string(world.size()),
               fmt::format("{:.0f}", static_cast<double>(rows / batch) / best),
               fmt::format("{:.0f}", static_cast<double>(rows) / best),
               fmt::format("{:.1f}", flops / best / 1e9)});
  }
  if (world.rank() != 0) return 0;

  constexpr std::int64_t queries = 16384;
  const Floats parameters = normal(shape.size()), x = normal(queries * inputs);
  std::vector<float> y(queries);
  const double predict_s =
      best_s(budget_s, [&] { mlp_predict(gemm, shape, parameters, x.data(), queries, y.data()); });
  const double predict_rate = queries * 2 * shape.macs() / predict_s;
  table.add({"predict 3 x 256", "16384", "1", "", fmt::format("{:.0f}", queries / predict_s),
             fmt::format("{:.1f}", predict_rate / 1e9)});
  std::fputs(table.str().c_str(), stdout);
  std::printf("predictions at %.0f %% of the GEMM rate\n", 100 * predict_rate / gemm_rate);
}
