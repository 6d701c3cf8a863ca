#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/stop.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"
#include "mpi/polite_wait.hpp"
#include "mpi/pulse.hpp"
#include "train/checkpoint.hpp"
#include "train/deal.hpp"
#include "train/ensemble_trainer.hpp"
#include "train/training_plan.hpp"

namespace forecost {

namespace {

/// One network: what is dealt to the groups.
struct Unit {
  std::size_t plan, part;
  int member;
  std::filesystem::path checkpoint;  ///< empty: none
  std::int64_t epoch = 0;            ///< finished, as its checkpoint says
  int group = 0;
  Floats parameters;  ///< when it is trained
};

/// The training of all units: those of this rank's group, and by the pulse what the others do.
class Training {
 public:
  Training(const std::vector<TrainingPlan>& plans, const TrainOptions& options, const World& world,
           const std::function<void(const TrainProgress&)>& watch)
      : plans_(plans),
        options_(options),
        world_(world),
        watch_(watch),
        pulse_(world, std::tuple_size_v<Told>, options.collective_timeout_s) {
    const int members = recipe_of(options.preset).members;
    for (std::size_t p = 0; p < plans.size(); ++p) {
      for (std::size_t i = 0; i < plans[p].parts.size(); ++i) {
        const TrainingPart& part = plans[p].parts[i];
        for (int m = 0; m < members; ++m) {
          Unit unit{.plan = p, .part = i, .member = m};
          if (!options.checkpoint_directory.empty()) {
            unit.checkpoint =
                plans[p].checkpoints / fmt::format("{}-{}.h5", part.model.schema->name, m);
          }
          units_.push_back(std::move(unit));
          epochs_ += part.epochs;
        }
      }
    }
    form_groups();
  }

  /// False if it was stopped. All ranks return the same, at about the same time.
  bool run() {
    find_checkpoints();
    deal_units();
    News own;
    for (const auto& job : jobs()) {
      if (!train(job, own)) break;
    }
    return wait_for_others(own);
  }

  /// Parameters of every unit, on every rank.
  const std::vector<Unit>& gather() {
    const auto all = make_collective(world_, options_.collective_timeout_s);
    for (Unit& unit : units_) {
      unit.parameters.resize(part_of(unit).model.shape.size());
      all->broadcast(unit.parameters, unit.group * ranks_per_group_);
    }
    return units_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What a rank tells the others: 0 or 1, but for `done`.
  struct News {
    double stop = 0;         ///< a stop was asked for
    double ended = 0;        ///< its group has nothing left to do, or was stopped
    double interrupted = 0;  ///< the latter
    double done = 0;         ///< epochs of its group, told by the first rank of it
  };
  using Told = std::array<double, sizeof(News) / sizeof(double)>;

  const TrainingPart& part_of(const Unit& unit) const { return plans_[unit.plan].parts[unit.part]; }

  void form_groups() {
    const int ranks = world_.size(), asked = options_.ranks_per_model;
    if (asked > 0 && ranks % asked != 0) {
      throw AgreedError(ExitCode::usage,
                        fmt::format("--ranks-per-model {}: expected a divisor of the {}", asked,
                                    format_counted(ranks, "rank")));
    }
    ranks_per_group_ =
        asked > 0 ? asked : default_ranks_per_model(ranks, static_cast<int>(units_.size()));
    groups_ = ranks / ranks_per_group_;
    std::vector<int> own(static_cast<std::size_t>(ranks_per_group_));
    std::iota(own.begin(), own.end(), group() * ranks_per_group_);
    collective_ = options_.group(world_, own, options_.collective_timeout_s);
    if (world_.rank() == 0 && ranks > 1) {
      spdlog::info("{} of {} {} {}", format_counted(groups_, "group"),
                   format_counted(ranks_per_group_, "rank"), groups_ == 1 ? "trains" : "train",
                   format_counted(units_.size(), "network"));
    }
  }
  int group() const { return world_.rank() / ranks_per_group_; }
  bool leads() const { return collective_->rank() == 0; }

  /// How far each unit is, as rank 0 finds it: other ranks may see a file later. A training that
  /// begins anew deletes what lies there.
  void find_checkpoints() {
    if (options_.checkpoint_directory.empty()) return;
    std::string found;
    agree(world_, [&] {
      if (world_.rank() != 0) return;
      const auto old = options_.checkpoint_directory / "checkpoint.h5";
      if (options_.resume && std::filesystem::exists(old)) {
        throw DataError(
            fmt::format("{}: is of an earlier version, which kept all networks in one file: train "
                        "without --resume, in another --checkpoint directory",
                        old.string()));
      }
      if (options_.resume) {
        std::set<std::string> identities;
        for (const TrainingPlan& plan : plans_) identities.insert(plan.identity);
        refuse_other_trainings(options_.checkpoint_directory, identities);
      }
      for (Unit& unit : units_) {
        std::int64_t epoch = 0;
        if (!options_.resume) {
          remove_checkpoint(unit.checkpoint);
        } else if (const auto state = load(unit)) {
          epoch = state->epoch;
        }
        found += fmt::format("{} ", epoch);
      }
    });
    std::istringstream epochs(world_.broadcast(found));
    for (Unit& unit : units_) epochs >> unit.epoch;
  }

  std::optional<EnsembleState> load(const Unit& unit) const {
    return load_checkpoint(plans_[unit.plan].identity, unit.checkpoint);
  }

  void deal_units() {
    std::vector<double> costs;
    for (const Unit& unit : units_) {
      const TrainingPart& part = part_of(unit);
      costs.push_back(static_cast<double>(part.epochs - unit.epoch) *
                      static_cast<double>(part.y.size()) * part.model.shape.macs());
      begun_ += unit.epoch;
    }
    const auto group_of = deal(costs, groups_);
    for (std::size_t u = 0; u < units_.size(); ++u) units_[u].group = group_of[u];
  }

  /// The units of this rank's group: those of one part that are equally far go side by side.
  std::vector<std::vector<Unit*>> jobs() {
    std::map<std::tuple<std::size_t, std::size_t, std::int64_t>, std::vector<Unit*>> jobs;
    for (Unit& unit : units_) {
      if (unit.group == group()) jobs[{unit.plan, unit.part, unit.epoch}].push_back(&unit);
    }
    std::vector<std::vector<Unit*>> list;
    for (auto& [key, job] : jobs) list.push_back(std::move(job));
    return list;
  }

  /// False if it was stopped before its end.
  bool train(const std::vector<Unit*>& job, News& own) {
    const TrainingPart& part = part_of(*job.front());
    const Floats x = part.x();
    EnsembleTask task{.recipe = recipe_of(options_.preset),
                      .shape = part.model.shape,
                      .x = x,
                      .y = part.y,
                      .epochs = part.epochs,
                      .batch = part.batch,
                      .seed = part.seed,
                      .sharing = options_.sharing,
                      .members = {}};
    for (const Unit* unit : job) task.members.push_back(unit->member);
    EnsembleTrainer trainer(task, options_.engine, *collective_);
    if (job.front()->epoch > 0) trainer.restore(restored(job));
    const std::string name = plans_[job.front()->plan].title + std::string(part.model.schema->name);
    Clock::time_point saved = Clock::now();
    while (trainer.epoch() < trainer.epochs()) {
      const double loss = trainer.run_epoch();
      if (leads()) own.done += static_cast<double>(job.size());
      watch_({done(own), epochs_, name, loss});
      listen(own);
      // The ranks of a group must agree on stopping, else one would wait for the other's gradients.
      collective_->max(std::span(&own.stop, 1));
      own.interrupted = own.stop;
      const bool due = std::chrono::duration<double>(Clock::now() - saved).count() >
                       options_.checkpoint_interval_s;
      if (leads() && (own.stop > 0 || due)) {
        save(job, trainer.state());
        saved = Clock::now();
      }
      if (own.stop > 0) return false;
    }
    const EnsembleState state = trainer.state();
    if (leads()) save(job, state);
    const auto size = static_cast<std::ptrdiff_t>(part.model.shape.size());
    auto network = state.parameters.begin();
    for (Unit* unit : job) {
      unit->parameters.assign(network, network + size);
      network += size;
    }
    return true;
  }

  EnsembleState restored(const std::vector<Unit*>& job) const {
    EnsembleState all;
    for (const Unit* unit : job) {
      const auto state = load(*unit);
      if (!state || state->epoch != unit->epoch) {
        throw EnvironmentError(
            fmt::format("{}: is another file to rank {} than to rank 0: give a --checkpoint "
                        "directory that all nodes share",
                        unit->checkpoint.string(), world_.rank()));
      }
      const auto append = [](Floats& to, const Floats& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(all.parameters, state->parameters);
      append(all.first_moment, state->first_moment);
      append(all.second_moment, state->second_moment);
      all.epoch = state->epoch;
      all.step = state->step;
    }
    return all;
  }

  void save(const std::vector<Unit*>& job, const EnsembleState& state) const {
    if (options_.checkpoint_directory.empty()) return;
    const std::size_t size = part_of(*job.front()).model.shape.size();
    for (std::size_t i = 0; i < job.size(); ++i) {
      const auto own = [&](const Floats& all) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * size);
        return Floats(begin, begin + static_cast<std::ptrdiff_t>(size));
      };
      save_checkpoint({.parameters = own(state.parameters),
                       .first_moment = own(state.first_moment),
                       .second_moment = own(state.second_moment),
                       .epoch = state.epoch,
                       .step = state.step},
                      plans_[job[i]->plan].identity, job[i]->checkpoint);
    }
  }

  /// Tells the others, and hears of them; true when they told something new.
  bool listen(News& own) {
    if (stop_signal() != 0) own.stop = 1;
    auto told = std::bit_cast<Told>(own);
    const auto heard = pulse_.beat(told);
    if (!heard) return false;
    heard_.clear();
    for (auto each = heard->begin(); each != heard->end(); each += told.size()) {
      std::copy_n(each, told.size(), told.begin());
      heard_.push_back(std::bit_cast<News>(told));
      own.stop = std::max(own.stop, heard_.back().stop);
    }
    return true;
  }
  std::int64_t done(const News& own) const {
    double sum = own.done;
    for (std::size_t r = 0; r < heard_.size(); ++r) {
      if (static_cast<int>(r) != world_.rank()) sum += heard_[r].done;
    }
    return begun_ + static_cast<std::int64_t>(sum);
  }

  /// False if any group was interrupted.
  bool wait_for_others(News own) {
    own.ended = 1;
    for (PoliteWait politely;; politely.pause()) {
      if (!listen(own)) continue;
      if (world_.size() > 1) watch_({done(own), epochs_, "", 0});
      const auto is = [&](double News::*what) {
        return [what](const News& each) { return each.*what > 0; };
      };
      if (std::all_of(heard_.begin(), heard_.end(), is(&News::ended))) {
        return std::none_of(heard_.begin(), heard_.end(), is(&News::interrupted));
      }
    }
  }

  const std::vector<TrainingPlan>& plans_;
  const TrainOptions& options_;
  const World& world_;
  const std::function<void(const TrainProgress&)>& watch_;
  std::vector<Unit> units_;
  int ranks_per_group_ = 1, groups_ = 1;
  std::unique_ptr<Collective> collective_;  ///< of this rank's group
  Pulse pulse_;
  std::vector<News> heard_;  ///< of all ranks, last
  std::int64_t epochs_ = 0, begun_ = 0;
};

std::optional<std::vector<Model>> train_plans(
    std::vector<TrainingPlan> plans, const TrainOptions& options, const World& world,
    const std::function<void(const TrainProgress&)>& watch) {
  Training training(plans, options, world, watch);
  if (!training.run()) return std::nullopt;
  for (const Unit& unit : training.gather()) {
    plans[unit.plan].parts[unit.part].model.members.push_back(unit.parameters);
  }
  std::vector<Model> models;
  for (TrainingPlan& plan : plans) models.push_back(finished_model(std::move(plan)));
  return models;
}

}  // namespace

std::optional<Model> train_model(const Dataset& data, const TrainOptions& options,
                                 const World& world,
                                 const std::function<void(const TrainProgress&)>& watch) {
  std::vector<TrainingPlan> plans;
  plans.push_back(make_training_plan(data, identity_of(data), options, options.holdout_classes));
  auto models = train_plans(std::move(plans), options, world, watch);
  if (!models) return std::nullopt;
  return std::move(models->front());
}

std::optional<std::vector<Model>> train_models_without(
    std::span<const std::string> classes, const Dataset& data, const TrainOptions& options,
    const World& world, const std::function<void(const TrainProgress&)>& watch) {
  const std::string data_identity = identity_of(data);
  std::vector<TrainingPlan> plans;
  for (const std::string& name : classes) {
    plans.push_back(make_training_plan(data, data_identity, options, {name}));
    plans.back().title = fmt::format("without {}: ", name);
    if (!options.checkpoint_directory.empty()) {
      plans.back().checkpoints =
          options.checkpoint_directory / fmt::format("{}{}", fold_prefix, plans.size());
    }
  }
  return train_plans(std::move(plans), options, world, watch);
}

}  // namespace forecost
