#include "cuda/module_interface.hpp"

#include <algorithm>
#include <cctype>
#include <new>
#include <string_view>

#include "cuda/module/context.hpp"
#include "cuda/module/devices.hpp"
#include "cuda/module/sequence.hpp"
#include "cuda/module/support.hpp"
#include "cuda/module/trainer.hpp"

namespace forecost::cuda {

namespace {

Outcome outcome(Code code, std::string_view message) {
  Outcome outcome{code, {}};
  const std::size_t length = std::min(message.size(), sizeof outcome.message - 1);
  // One line, whatever a library puts into its own words.
  std::transform(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length),
                 outcome.message,
                 [](unsigned char c) { return std::iscntrl(c) != 0 ? ' ' : static_cast<char>(c); });
  return outcome;
}

template <class Call>
Outcome guarded(Call&& call) noexcept {
  try {
    call();
    return Outcome{Code::ok, {}};
  } catch (const Failure& failure) {
    return outcome(failure.code(), failure.what());
  } catch (const std::bad_alloc&) {
    return outcome(Code::failed, "the host is out of memory");
  } catch (const std::exception& error) {
    return outcome(Code::failed, error.what());
  } catch (...) {
    return outcome(Code::failed, "an unknown exception");
  }
}

/// The same on a context's device, whatever thread calls.
template <class Call>
Outcome guarded(Context* context, Call&& call) noexcept {
  return guarded([&] {
    context->use();
    call();
  });
}

Outcome allocate(Context* context, Space space, std::int64_t bytes, void** memory) {
  return guarded(context, [&] {
    *memory = nullptr;
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    if (space == Space::device) {
      check(cudaMalloc(memory, size), "cudaMalloc");
    } else {
      check(cudaMallocHost(memory, size), "cudaMallocHost");
    }
  });
}

void release(Context* context, Space space, void* memory) {
  guarded(context, [&] {
    if (space == Space::device) {
      check(cudaFree(memory), "cudaFree");
    } else {
      check(cudaFreeHost(memory), "cudaFreeHost");
    }
  });
}

Outcome free_memory(Context* context, std::int64_t* bytes) {
  return guarded(context, [&] {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    *bytes = static_cast<std::int64_t>(free);
  });
}

const ModuleTable table{
    .interface_version = interface_version,
    .build = FORECOST_CUDA_BUILD,
    .versions = [](Versions* found) { *found = versions(); },
    .count_devices =
        [](std::int32_t* count) {
          *count = 0;
          return guarded([&] { *count = count_devices(); });
        },
    .describe_device =
        [](std::int32_t index, DeviceFacts* facts) {
          return guarded([&] { *facts = describe_device(index); });
        },
    .open =
        [](std::int32_t index, Context** context) {
          *context = nullptr;
          return guarded([&] { *context = new Context(index); });
        },
    .close =
        [](Context* context) {
          guarded(context, [] {});
          delete context;
        },

    .free_memory = free_memory,
    .allocate = allocate,
    .release = release,
    .fill_uniform =
        [](Context* context, void* memory, Element element, std::int64_t count, double low,
           double high, std::uint64_t seed) {
          return guarded(context,
                         [&] { fill_uniform(*context, memory, element, count, low, high, seed); });
        },
    .fill_indices =
        [](Context* context, void* memory, std::int64_t count, std::int64_t bound,
           std::uint64_t seed) {
          return guarded(context, [&] { fill_indices(*context, memory, count, bound, seed); });
        },
    .zero =
        [](Context* context, void* memory, std::int64_t bytes) {
          return guarded(context, [&] { zero(*context, memory, bytes); });
        },
    .read =
        [](Context* context, const void* memory, Element element, std::int64_t count,
           double* values) {
          return guarded(context, [&] { read(*context, memory, element, count, values); });
        },
    .sum =
        [](Context* context, const void* memory, Element element, std::int64_t count, Sums* sums) {
          return guarded(context, [&] { *sums = sum(*context, memory, element, count); });
        },

    .plan =
        [](Context* context, const Primitive* primitive, Plan** plan, PlanInfo* info) {
          *plan = nullptr;
          return guarded(context, [&] {
            auto made = planner_of(primitive->kind)(*context, *primitive);
            *info = made->info;
            *plan = made.release();
          });
        },
    .drop_plan = [](Plan* plan) { delete plan; },
    .rnn_regions =
        [](Plan* plan, RnnRegion* regions, std::int32_t room, std::int32_t* count) {
          return guarded([&] { *count = rnn_regions_of(*plan, regions, room); });
        },

    .prepare =
        [](Context* context, const Step* steps, std::int32_t count, void* workspace,
           std::int64_t workspace_bytes, Sequence** sequence) {
          *sequence = nullptr;
          return guarded(context, [&] {
            *sequence = new Sequence(*context, std::span(steps, static_cast<std::size_t>(count)),
                                     workspace, workspace_bytes);
          });
        },
    .drop_sequence = [](Sequence* sequence) { delete sequence; },
    .run =
        [](Sequence* sequence, std::int64_t runs, Launch launch, std::int32_t hold,
           Timing* timing) {
          return guarded(&sequence->context(),
                         [&] { *timing = sequence->run(runs, launch, hold != 0); });
        },

    .communicator_id =
        [](CommunicatorId* id) { return guarded([&] { *id = new_communicator_id(); }); },
    .open_communicator =
        [](Context* context, const CommunicatorId* id, std::int32_t rank, std::int32_t size,
           double timeout_s, Communicator** communicator) {
          *communicator = nullptr;
          return guarded(context, [&] {
            *communicator = new Communicator(*context, *id, rank, size, timeout_s);
          });
        },
    .close_communicator =
        [](Communicator* communicator) {
          guarded(&communicator->context(), [] {});
          delete communicator;
        },
    .combine =
        [](Communicator* communicator, void* values, Element element, std::int64_t count,
           Combine how) {
          return guarded(&communicator->context(),
                         [&] { communicator->combine(values, element, count, how); });
        },
    .broadcast =
        [](Communicator* communicator, void* values, std::int64_t bytes, std::int32_t root) {
          return guarded(&communicator->context(),
                         [&] { communicator->broadcast_host(values, bytes, root); });
        },

    .open_trainer =
        [](Context* context, Communicator* communicator, const TrainingSetup* setup,
           Trainer** trainer) {
          *trainer = nullptr;
          return guarded(context, [&] { *trainer = new Trainer(*context, communicator, *setup); });
        },
    .close_trainer =
        [](Trainer* trainer) {
          guarded(&trainer->context(), [] {});
          delete trainer;
        },
    .load_trainer =
        [](Trainer* trainer, const float* parameters, const float* first, const float* second) {
          return guarded(&trainer->context(), [&] { trainer->load(parameters, first, second); });
        },
    .store_trainer =
        [](Trainer* trainer, float* parameters, float* first, float* second) {
          return guarded(&trainer->context(), [&] { trainer->store(parameters, first, second); });
        },
    .train_epoch =
        [](Trainer* trainer, const TrainingEpoch* epoch, double* loss) {
          return guarded(&trainer->context(), [&] { *loss = trainer->run_epoch(*epoch); });
        },

    .flush = [](Context* context,
                std::int64_t bytes) { return guarded(context, [&] { flush(*context, bytes); }); },
    .spin =
        [](Context* context, double seconds, double* device_s) {
          return guarded(context, [&] { *device_s = spin(*context, seconds); });
        },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ModuleTable* forecost_cuda_module(
    std::uint32_t version) {
  return version == interface_version ? &table : nullptr;
}

}  // namespace forecost::cuda
