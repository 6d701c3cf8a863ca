#include "collect/plan.hpp"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "core/hash.hpp"
#include "core/random.hpp"
#include "core/units.hpp"
#include "data/layer_draft.hpp"

namespace forecost {

namespace {

const std::vector<std::string> choice_keys{"passes", "dtypes", "optimizers", "cache", "policies"};

template <class E>
std::vector<E> choices(const TomlValue& table, std::string_view key, std::vector<E> fallback) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return fallback;
  std::vector<E> all;
  for (const TomlValue& item : value->as_list()) all.push_back(item.as_enum<E>());
  return all;
}

/// passes, dtypes, optimizers, cache and policies of a block or an anchor.
template <class Target>
void read_choices(const TomlValue& table, Target& target) {
  target.passes = choices<Pass>(table, "passes", {Pass::forward});
  target.dtypes = choices<DType>(table, "dtypes", {DType::f32});
  target.optimizers = choices<Optimizer>(table, "optimizers", {Optimizer::sgd});
  target.caches = choices<CacheState>(table, "cache", {CacheState::cold});
  target.policies = choices<AlgorithmPolicy>(table, "policies", {AlgorithmPolicy::heuristic});
  for (const AlgorithmPolicy policy : target.policies) {
    if (policy == AlgorithmPolicy::unknown) {
      table.at("policies").fail("expected heuristic, find or fixed");
    }
  }
  for (const Optimizer optimizer : target.optimizers) {
    if (optimizer == Optimizer::none)
      table.at("optimizers").fail("expected an optimizer, not none");
  }
}

/// The task by each policy; once where there are no algorithms to choose among.
std::vector<Task> by_policy(Task task, std::span<const AlgorithmPolicy> policies) {
  const Family family = family_of(task.layer.op(), task.pass);
  const bool chooses = family == Family::gemm || family == Family::convolution;
  std::vector<Task> tasks;
  for (const AlgorithmPolicy policy : policies) {
    task.policy = chooses ? policy : AlgorithmPolicy::heuristic;
    if (tasks.empty() || chooses) tasks.push_back(task);
  }
  return tasks;
}

void check_passes(const TomlValue& table, const Operator& op, std::span<const Pass> passes) {
  for (const Pass pass : passes) {
    if (op.has(pass)) continue;
    std::vector<std::string> known;
    for (const Pass each : op.passes) known.emplace_back(name_of(each));
    table.at("passes").fail(
        fmt::format("{}: {}", op.name, unknown_name("pass", name_of(pass), known)));
  }
}

/// Orders the spaces so that every bound finds the parameters it needs.
void sort_by_need(const TomlValue& table, const Operator& op, std::vector<ParameterSpace>& spaces) {
  std::vector<ParameterSpace> sorted;
  std::vector<bool> known(op.parameters.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    known[i] = op.parameters[i].default_value.has_value() &&
               std::none_of(spaces.begin(), spaces.end(), [&](const ParameterSpace& space) {
                 const auto all = space.parameters();
                 return std::find(all.begin(), all.end(), i) != all.end();
               });
  }
  while (!spaces.empty()) {
    const auto ready = std::find_if(spaces.begin(), spaces.end(), [&](const ParameterSpace& space) {
      const auto needs = space.needs();
      return std::all_of(needs.begin(), needs.end(), [&](std::size_t i) { return known[i]; });
    });
    if (ready == spaces.end()) {
      spaces.front().source().fail(
          "its range depends on a parameter that is absent or depends on it");
    }
    for (const std::size_t i : ready->parameters()) known[i] = true;
    sorted.push_back(std::move(*ready));
    spaces.erase(ready);
  }
  spaces = std::move(sorted);
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) {
      table.fail(fmt::format("expected a key '{}'", op.parameters[i].name));
    }
  }
}

SweepBlock parse_block(const Operator& op, const TomlValue& table) {
  SweepBlock block{&op, table.line, table.at("samples").as_integer(1, 1'000'000), {}, {}, {}, {},
                   {},  {},         table.number("forward_only_share", 0, 0, 1)};
  std::vector<std::string> keys{"samples", "forward_only_share"};
  keys.insert(keys.end(), choice_keys.begin(), choice_keys.end());
  const auto own = layer_keys(op);
  keys.insert(keys.end(), own.begin(), own.end());
  table.only(keys);
  read_choices(table, block);
  check_passes(table, op, block.passes);
  if (block.forward_only_share > 0 && !op.has(Pass::forward)) {
    table.at("forward_only_share").fail(fmt::format("{} has no forward pass", op.name));
  }

  std::vector<bool> set(op.parameters.size());
  for (const auto& key : table.keys()) {
    if (std::find(own.begin(), own.end(), key) == own.end()) continue;
    const TomlValue& value = table.at(key);
    if (key == "padding") {
      for (const TomlValue& item : value.as_list()) block.paddings.push_back(padding_value(item));
      continue;
    }
    block.spaces.emplace_back(op, value);
    for (const std::size_t index : block.spaces.back().parameters()) {
      if (set[index]) value.fail(fmt::format("sets {} twice", op.parameters[index].name));
      set[index] = true;
    }
  }
  if (!block.paddings.empty()) {
    for (const std::string_view pad : {"pad_top", "pad_bottom", "pad_left", "pad_right"}) {
      if (set[*op.index_of(pad)]) table.at("padding").fail(fmt::format("sets {} twice", pad));
    }
  }
  sort_by_need(table, op, block.spaces);

  block.given = set;

  // What some draw could not do without is told here, where the line is known. Of a choice nothing
  // is certain; of a number, that it is there.
  std::vector<std::int64_t> values;
  for (const ParameterInfo& parameter : op.parameters) values.push_back(parameter.min);
  for (const ParameterSpace& space : block.spaces) {
    for (const std::size_t index : space.parameters()) {
      if (space.constant())
        values[index] = *space.draw(0, values);
      else if (!op.parameters[index].value_names.empty())
        set[index] = false;
    }
  }
  try {
    complete(op, set, values);
  } catch (const UsageError& error) {
    table.fail(error.what());
  }
  return block;
}

SweepAnchor parse_anchor(const TomlValue& table) {
  std::vector<std::string> keys{"network", "batch"};
  keys.insert(keys.end(), choice_keys.begin(), choice_keys.end());
  table.only(keys);
  const TomlValue& name = table.at("network");
  SweepAnchor anchor;
  try {
    anchor.network = find_network(name.as_text());
  } catch (const UsageError& error) {
    name.fail(error.what());
  }
  for (const TomlValue& batch : table.at("batch").as_list()) {
    anchor.batches.push_back(batch.as_integer(1, 1 << 20));
  }
  read_choices(table, anchor);
  const auto& nodes = anchor.network.nodes;
  for (const Pass pass : anchor.passes) {
    const auto has = [&](auto& node) { return node.layer && node.layer->op().has(pass); };
    if (std::none_of(nodes.begin(), nodes.end(), has)) {
      table.at("passes").fail(
          fmt::format("no layer of {} has the pass {}", anchor.network.name, name_of(pass)));
    }
  }
  return anchor;
}

MeasureRules parse_rules(const TomlValue* table) {
  MeasureRules rules;
  if (table == nullptr) return rules;
  table->only({"min_samples", "max_samples", "budget_s", "precision", "warmup_budget_s",
               "short_kernel_s", "hot_batch_s", "timeout_s", "replicates", "reference_interval_s",
               "check"});
  rules.min_samples = table->integer("min_samples", rules.min_samples, 1, 1'000'000);
  rules.max_samples =
      table->integer("max_samples", rules.max_samples, rules.min_samples, 1'000'000);
  rules.budget_s = table->number("budget_s", rules.budget_s, 1e-6, 1e6);
  rules.precision = table->number("precision", rules.precision, 1e-6, 1);
  rules.warmup_budget_s = table->number("warmup_budget_s", rules.warmup_budget_s, 0, 1e6);
  rules.short_kernel_s = table->number("short_kernel_s", rules.short_kernel_s, 0, 1e6);
  rules.hot_batch_s = table->number("hot_batch_s", rules.hot_batch_s, 0, 1e6);
  rules.timeout_s = table->number("timeout_s", rules.timeout_s, 1e-3, 1e6);
  if (const TomlValue* check = table->find("check")) rules.check = check->as_boolean();
  rules.replicates = table->integer("replicates", rules.replicates, 1, 100);
  rules.reference_interval_s =
      table->number("reference_interval_s", rules.reference_interval_s, 1e-3, 1e9);
  return rules;
}

/// Collects tasks, each once, and what the caps leave out.
class Expansion {
 public:
  Expansion(const SweepCaps& caps, Plan& plan) : caps_(caps), plan_(plan) {}

  /// Why the caps leave the task out; empty if they do not.
  std::string refusal(const Task& task) const {
    const Work work = task.work();
    if (work.bytes() > caps_.max_memory_bytes) {
      return fmt::format("operands above max_memory_bytes = {}",
                         format_bytes(caps_.max_memory_bytes));
    }
    if (work.flops > caps_.max_flops) {
      return fmt::format("work above max_flops = {}", format_si(caps_.max_flops, "FLOP"));
    }
    return {};
  }

  /// False if the plan has it already.
  bool add(const Task& task) {
    if (!known_.insert(task_text(task)).second) return false;
    plan_.tasks.push_back(task);
    return true;
  }

  void skip(std::string_view op, std::string_view pass, const std::string& reason,
            std::int64_t count = 1) {
    for (PlanSkip& skip : plan_.skipped) {
      if (skip.op == op && skip.pass == pass && skip.reason == reason) {
        skip.count += count;
        return;
      }
    }
    plan_.skipped.push_back({std::string(op), std::string(pass), reason, count});
  }

 private:
  const SweepCaps& caps_;
  Plan& plan_;
  std::unordered_set<std::string> known_;
};

/// A layer without parameters has nothing to update, whatever its operator has.
bool has_pass(const Layer& layer, Pass pass) {
  return layer.op().has(pass) && (pass != Pass::update || layer.parameter_count() > 0);
}

Optimizer optimizer_of(Pass pass, Optimizer optimizer) {
  return pass == Pass::update || pass == Pass::training_step ? optimizer : Optimizer::none;
}

/// What runs of the network in inference and, where more than forward is asked for, in training.
void expand_anchor(const SweepAnchor& anchor, Expansion& out) {
  const bool training = anchor.passes != std::vector{Pass::forward};
  for (const std::int64_t batch : anchor.batches) {
    std::vector<LayerRun> runs = anchor.network.runs(batch, Mode::inference);
    if (training) {
      for (LayerRun& run : anchor.network.runs(batch, Mode::training)) {
        if (run.layer.op().has(Pass::training_step)) run.passes.push_back(Pass::training_step);
        runs.push_back(std::move(run));
      }
    }
    for (const auto& [node, layer, passes] : runs) {
      for (const Pass pass : anchor.passes) {
        if (std::find(passes.begin(), passes.end(), pass) == passes.end()) continue;
        for (const DType dtype : anchor.dtypes) {
          for (const CacheState cache : anchor.caches) {
            for (const Optimizer optimizer : anchor.optimizers) {
              const Task drawn{layer, pass, dtype, optimizer_of(pass, optimizer), cache};
              for (const Task& task : by_policy(drawn, anchor.policies)) {
                if (const auto why = out.refusal(task); !why.empty()) {
                  out.skip(layer.op().name, name_of(pass), why + " (anchor)");
                } else {
                  out.add(task);
                }
              }
              if (drawn.optimizer == Optimizer::none) break;
            }
          }
        }
      }
    }
  }
}

/// A layer's complaints begin with its operator, which a skip names anyway.
std::string without_name(std::string_view message, const Operator& op) {
  const std::string name = fmt::format("{}: ", op.name);
  return std::string(message.starts_with(name) ? message.substr(name.size()) : message);
}

/// Draws layers until `samples` feasible new ones are found, or too many draws were in vain.
void expand_block(const SweepBlock& block, std::uint64_t seed, Expansion& out) {
  // One dimension per drawn parameter, then padding, dtype, optimizer, cache and forward only. The
  // choices that hardly matter to a layer's time come last, where the sequence is weakest.
  std::size_t dimensions = 5;
  for (const auto& space : block.spaces) dimensions += space.constant() ? 0 : 1;
  QuasiRandom sequence(dimensions, seed);

  const Operator& op = *block.op;
  std::vector<std::int64_t> values(op.parameters.size());
  std::int64_t found = 0;
  std::string contradiction;
  for (std::int64_t in_vain = 0; found < block.samples;) {
    if (in_vain > 1000 + 50 * block.samples) {
      out.skip(op.name, "all",
               "the block at line " + std::to_string(block.line) + " has no more feasible layers",
               block.samples - found);
      return;
    }
    ++in_vain;
    const auto point = sequence.next();
    std::size_t dimension = 0;
    const auto pick = [&](const auto& list) {
      const double u = point[dimension++];
      return list[static_cast<std::size_t>(u * static_cast<double>(list.size()))];
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = op.parameters[i].default_value.value_or(0);
    }
    bool empty = false;
    for (const auto& space : block.spaces) {
      const double u = space.constant() ? 0 : point[dimension++];
      const auto value = space.draw(u, values);
      empty = empty || !value;
      for (const std::size_t index : space.parameters()) values[index] = value.value_or(1);
    }
    if (empty) {
      out.skip(op.name, "all", "an empty range (min above max)");
      continue;
    }
    complete(op, block.given, values);
    if (block.paddings.empty()) {
      ++dimension;
    } else {
      apply_padding(op, pick(block.paddings), values);
    }
    const DType dtype = pick(block.dtypes);
    const Optimizer optimizer = pick(block.optimizers);
    const CacheState cache = pick(block.caches);
    const bool forward_only = point[dimension] < block.forward_only_share;

    std::vector<Task> tasks;
    std::string why, pass_of_why;
    try {
      const Layer layer = Layer::of_values(op, values);
      static const std::vector<Pass> only_forward{Pass::forward};
      for (const Pass pass : forward_only ? only_forward : block.passes) {
        if (!has_pass(layer, pass)) continue;
        const Task drawn{layer, pass, dtype, optimizer_of(pass, optimizer), cache};
        for (const Task& task : by_policy(drawn, block.policies)) tasks.push_back(task);
        if (why = out.refusal(tasks.back()); !why.empty()) {
          pass_of_why = name_of(pass);
          break;
        }
      }
    } catch (const UsageError& error) {
      // One example is enough: every draw has a message of its own.
      if (contradiction.empty()) contradiction = without_name(error.what(), op);
      why = "parameters that contradict each other, such as: " + contradiction;
      pass_of_why = "all";
    }
    if (!why.empty()) {
      out.skip(op.name, pass_of_why, why + " (redrawn)");
      continue;
    }
    bool fresh = false;
    for (const Task& task : tasks) fresh = out.add(task) || fresh;
    found += fresh ? 1 : 0;
    if (fresh) in_vain = 0;
  }
}

}  // namespace

Sweep parse_sweep(const TomlValue& root) {
  std::vector<std::string> keys{"sweep", "measure", "anchor"};
  for (const Operator* op : operators()) keys.emplace_back(op->name);
  root.only(keys);
  const TomlValue& head = root.at("sweep");
  head.only({"name", "seed", "max_memory_bytes", "max_flops"});
  Sweep sweep;
  sweep.name = head.at("name").as_text();
  const auto printable = [](unsigned char c) { return c >= ' ' && c != 0x7F; };
  if (sweep.name.empty() || !std::all_of(sweep.name.begin(), sweep.name.end(), printable)) {
    head.at("name").fail("expected a name of printable characters");
  }
  sweep.seed = static_cast<std::uint64_t>(head.integer("seed", 1, 0));
  sweep.caps.max_memory_bytes = head.number("max_memory_bytes", sweep.caps.max_memory_bytes, 1);
  sweep.caps.max_flops = head.number("max_flops", sweep.caps.max_flops, 1);
  sweep.rules = parse_rules(root.find("measure"));
  for (const TomlValue& table : root.tables("anchor")) sweep.anchors.push_back(parse_anchor(table));
  for (const Operator* op : operators()) {
    for (const TomlValue& table : root.tables(op->name)) {
      sweep.blocks.push_back(parse_block(*op, table));
    }
  }
  if (sweep.anchors.empty() && sweep.blocks.empty()) {
    root.fail("expected at least one block of an operator, such as [[conv2d]], or an [[anchor]]");
  }
  return sweep;
}

void expand(const Sweep& sweep, Plan& plan) {
  Expansion out(sweep.caps, plan);
  for (const SweepAnchor& anchor : sweep.anchors) expand_anchor(anchor, out);
  for (std::size_t i = 0; i < sweep.blocks.size(); ++i) {
    expand_block(sweep.blocks[i], mix64(sweep.seed) + i, out);
  }
  Random(sweep.seed, hash64("order")).shuffle(plan.tasks);
}

}  // namespace forecost
