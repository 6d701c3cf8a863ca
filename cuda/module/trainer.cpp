#include "cuda/module/trainer.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace forecost::cuda {

namespace {

constexpr std::int64_t f32_bytes = 4;

template <class T>
T* as(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.get());
}

}  // namespace

Trainer::Trainer(Context& context, Communicator* communicator, const TrainingSetup& setup)
    : GraphOwner(context),
      context_(context),
      communicator_(communicator),
      cublas_(context),
      widths_(setup.widths, setup.widths + setup.layers + 1),
      weights_at_(setup.weights_at, setup.weights_at + setup.layers),
      bias_at_(setup.bias_at, setup.bias_at + setup.layers),
      network_size_(setup.parameters),
      networks_(setup.networks),
      rows_(setup.rows),
      batch_(setup.batch),
      loss_(static_cast<Loss>(setup.loss)),
      huber_delta_(setup.huber_delta),
      dropout_(setup.dropout),
      precision_(setup.precision) {
  if (setup.layers < 2 || widths_.back() != 1 || rows_ < 1 || batch_ < 1 || networks_ < 1) {
    throw Failure(Code::failed, "a training of no rows, no networks or no hidden layer");
  }
  const std::int64_t ranks = communicator_ == nullptr ? 1 : communicator_->size();
  most_rows_ = (batch_ + ranks - 1) / ranks;
  const std::int64_t element = precision_ == Precision::bf16 ? 2 : f32_bytes;
  const std::int64_t all = networks_ * network_size_, step_rows = networks_ * most_rows_;
  const std::int64_t widest = *std::max_element(widths_.begin() + 1, widths_.end());

  x_ = device_memory(rows_ * widths_.front() * f32_bytes);
  y_ = device_memory(rows_ * f32_bytes);
  for (DeviceMemory* each : {&parameters_, &first_, &second_, &gradient_}) {
    *each = device_memory(all * f32_bytes);
  }
  if (precision_ == Precision::bf16) rounded_ = device_memory(all * element);
  order_ = device_memory(networks_ * rows_ * std::int64_t{sizeof(std::uint32_t)});
  seeds_ = device_memory(networks_ * std::int64_t{sizeof(std::uint64_t)});
  inputs_ = device_memory(step_rows * widths_.front() * element);
  for (std::size_t l = 1; l + 1 < widths_.size(); ++l) {
    hidden_.push_back(device_memory(step_rows * widths_[l] * element));
  }
  delta_ = device_memory(step_rows * widest * element);
  next_delta_ = device_memory(step_rows * widest * element);
  if (precision_ == Precision::bf16) products_ = device_memory(step_rows * widest * f32_bytes);
  slopes_ = device_memory(step_rows * f32_bytes);
  losses_ = device_memory(step_rows * std::int64_t{sizeof(double)});
  loss_sum_ = device_memory(sizeof(double));
  next_step_ = device_memory(sizeof(std::int64_t));

  upload(x_.get(), setup.x, rows_ * widths_.front() * f32_bytes);
  upload(y_.get(), setup.y, rows_ * f32_bytes);
  // The padding between parameters stays 0 for ever: no kernel writes to it.
  check(cudaMemsetAsync(gradient_.get(), 0, static_cast<std::size_t>(all * f32_bytes),
                        context_.stream),
        "cudaMemsetAsync");
  context_.wait();
}

void Trainer::upload(std::byte* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                        context_.stream),
        "cudaMemcpyAsync");
}

void Trainer::download(void* to, const std::byte* from, std::int64_t bytes) {
  context_.wait();  // a copy into memory that may be paged waits by itself, and watches nobody
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                        context_.stream),
        "cudaMemcpyAsync");
}

void Trainer::load(const float* parameters, const float* first, const float* second) {
  const std::int64_t all = networks_ * network_size_;
  upload(parameters_.get(), parameters, all * f32_bytes);
  upload(first_.get(), first, all * f32_bytes);
  upload(second_.get(), second, all * f32_bytes);
  if (rounded_) round_parameters(context_, all, as<float>(parameters_), rounded_.get());
  context_.wait();
}

void Trainer::store(float* parameters, float* first, float* second) {
  const std::int64_t all = networks_ * network_size_;
  download(parameters, parameters_.get(), all * f32_bytes);
  download(first, first_.get(), all * f32_bytes);
  download(second, second_.get(), all * f32_bytes);
  context_.wait();
}

LayerView Trainer::layer(std::size_t l) const {
  return {as<float>(parameters_), network_size_, weights_at_[l], bias_at_[l], widths_[l],
          widths_[l + 1]};
}

/// The gradient of this rank's rows; there is one at least.
void Trainer::enqueue_gradient(const StepRows& rows, std::int64_t batch_rows) {
  const std::size_t last = widths_.size() - 2;
  const bool rounds = precision_ == Precision::bf16;
  const auto* weights = rounds ? rounded_.get() : parameters_.get();
  const std::int64_t element = rounds ? 2 : f32_bytes;
  const auto weights_of = [&](std::size_t l, bool transposed) {
    return Matrix{weights + weights_at_[l] * element, widths_[l + 1], network_size_, transposed};
  };
  const auto values_of = [&](const void* memory, std::int64_t width, bool transposed = false) {
    return Matrix{memory, width, rows.count * width, transposed};
  };

  gather_rows(context_, precision_, rows, as<float>(x_), widths_.front(), inputs_.get());
  const std::byte* input = inputs_.get();
  for (std::size_t l = 0; l < last; ++l) {
    const std::int64_t in = widths_[l], out = widths_[l + 1];
    float* products = rounds ? as<float>(products_) : as<float>(hidden_[l]);
    cublas_.multiply(precision_, networks_, rows.count, out, in, values_of(input, in),
                     weights_of(l, false), products, out, rows.count * out);
    activate_hidden(context_, precision_, rows, layer(l), products, hidden_[l].get(),
                    l + 1 == last ? dropout_ : 0, as<std::uint64_t>(seeds_));
    input = hidden_[l].get();
  }

  auto* gradient = as<float>(gradient_);
  output_gradient(context_, precision_, rows, layer(last), input, as<float>(y_), loss_,
                  huber_delta_, 1.0 / static_cast<double>(batch_rows), dropout_,
                  as<double>(losses_), as<float>(slopes_), delta_.get());
  output_weight_gradient(context_, precision_, rows, layer(last), input, as<float>(slopes_),
                         gradient);
  std::byte *delta = delta_.get(), *next = next_delta_.get();
  for (std::size_t l = last; l-- > 0;) {
    const std::int64_t in = widths_[l], out = widths_[l + 1];
    const std::byte* below = l == 0 ? inputs_.get() : hidden_[l - 1].get();
    cublas_.multiply(precision_, networks_, in, out, rows.count, values_of(below, in, true),
                     values_of(delta, out), gradient + weights_at_[l], out, network_size_);
    bias_gradient(context_, precision_, rows, layer(l), delta, gradient);
    if (l == 0) break;
    auto* products = rounds ? as<float>(products_) : reinterpret_cast<float*>(next);
    cublas_.multiply(precision_, networks_, rows.count, in, out, values_of(delta, out),
                     weights_of(l, true), products, in, rows.count * in);
    rectify_gradient(context_, precision_, rows, in, below, products, next);
    std::swap(delta, next);
  }
}

void Trainer::enqueue_step(const StepRows& rows, std::int64_t batch_rows) {
  const std::int64_t all = networks_ * network_size_;
  if (rows.count > 0) {
    enqueue_gradient(rows, batch_rows);
  } else {
    // A rank without rows adds nothing, but it does add.
    check(cudaMemsetAsync(gradient_.get(), 0, static_cast<std::size_t>(all * f32_bytes),
                          context_.stream),
          "cudaMemsetAsync");
  }
  if (communicator_ != nullptr) {
    communicator_->all_reduce(gradient_.get(), gradient_.get(), all, Element::f32, Combine::sum);
  }
  adam(context_, all, as<AdamFactors>(factors_), as<std::int64_t>(next_step_), as<float>(gradient_),
       as<float>(parameters_), as<float>(first_), as<float>(second_), rounded_.get());
  finish_step(context_, networks_ * rows.count, as<double>(losses_), as<double>(loss_sum_),
              as<std::int64_t>(next_step_));
}

void Trainer::run_step(std::int64_t batch_rows) {
  const std::int64_t rank = communicator_ == nullptr ? 0 : communicator_->rank(),
                     ranks = communicator_ == nullptr ? 1 : communicator_->size();
  const std::int64_t begin = batch_rows * rank / ranks, end = batch_rows * (rank + 1) / ranks;
  const StepRows rows{as<std::uint32_t>(order_),
                      as<std::int64_t>(next_step_),
                      rows_,
                      batch_,
                      begin,
                      end - begin,
                      networks_};
  const auto found = graphs_.find(batch_rows);
  if (found == graphs_.end()) {
    enqueue_step(rows, batch_rows);
    context_.wait();
    graphs_[batch_rows] = capture_graph(context_, [&] { enqueue_step(rows, batch_rows); });
  } else if (found->second) {
    check(cudaGraphLaunch(found->second.get(), context_.stream), "cudaGraphLaunch");
  } else {
    enqueue_step(rows, batch_rows);
  }
}

double Trainer::run_epoch(const TrainingEpoch& epoch) {
  const std::int64_t steps = (rows_ + batch_ - 1) / batch_;
  if (epoch.steps != steps) {
    throw Failure(Code::failed, "an epoch of " + std::to_string(epoch.steps) +
                                    " steps, expected are " + std::to_string(steps));
  }
  // A captured step reads where they were when it was captured.
  if (!factors_) factors_ = device_memory(steps * std::int64_t{sizeof(AdamFactors)});
  upload(order_.get(), epoch.order, networks_ * rows_ * std::int64_t{sizeof(std::uint32_t)});
  upload(seeds_.get(), epoch.dropout_seeds, networks_ * std::int64_t{sizeof(std::uint64_t)});
  upload(factors_.get(), epoch.factors, steps * std::int64_t{sizeof(AdamFactors)});
  for (const DeviceMemory* each : {&loss_sum_, &next_step_}) {
    check(cudaMemsetAsync(each->get(), 0, 8, context_.stream), "cudaMemsetAsync");
  }
  context_.wait();
  // Waits now and then: a lost rank is noticed by how long nothing came, which must not be the
  // whole of an epoch.
  constexpr std::int64_t between_waits = 64;
  for (std::int64_t step = 0; step < steps; ++step) {
    run_step(std::min(batch_, rows_ - step * batch_));
    if (step % between_waits == between_waits - 1) context_.wait();
  }
  // NCCL does not promise that a sum has the same bits on every rank; parameters must not drift
  // apart.
  if (communicator_ != nullptr) {
    communicator_->broadcast(parameters_.get(), networks_ * network_size_ * f32_bytes, 0);
    if (rounded_) {
      round_parameters(context_, networks_ * network_size_, as<float>(parameters_), rounded_.get());
    }
  }
  double loss = 0;
  download(&loss, loss_sum_.get(), sizeof loss);
  context_.wait();
  return loss;
}

}  // namespace forecost::cuda
