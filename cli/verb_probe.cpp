#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/verb.hpp"
#include "collect/device_group.hpp"
#include "collect/probe_all_reduce.hpp"
#include "core/file.hpp"
#include "core/progress.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "core/version.hpp"
#include "data/text.hpp"
#include "mpi/agree.hpp"

namespace forecost::cli {
namespace {

constexpr Help help{
    "forecost probe [--device D] [--backend B] [--cores N] -o FILE|-",
    "What this device reaches, in less than a minute: matrix peaks, bandwidth of memory and "
    "caches\n"
    "by working set, copies, launch latency, and under mpirun or srun the all-reduce of all "
    "ranks.\n"
    "FILE is a device file for forecost predict and corpus import; an existing one is replaced if\n"
    "an earlier probe wrote it. All ranks probe at once, as they measure at once in a sweep, and "
    "the\n"
    "file is of the first one's device; others of its class that differ are told.",
    "  forecost probe -o node.toml\n"
    "  forecost probe --device amd-epyc-9654-96-core-processor-96c -o genoa.toml\n"
    "  mpirun -n 2 --bind-to core forecost probe --cores 1 -o core.toml"};

/// What two probes of a quiet machine may differ by.
constexpr double doubtful = 0.05;
constexpr std::string_view first_line = "# A device as 'forecost probe' found it";

std::string_view name_of(Attribute attribute) {
  return attribute_table()[static_cast<std::size_t>(attribute)].name;
}

bool is_probed(Attribute attribute) { return name_of(attribute).starts_with("probed_"); }

/// The nominal attribute that tells what a probed one should reach.
std::optional<Attribute> nominal_of(Attribute probed) {
  if (probed == Attribute::probed_cache_bytes) return Attribute::llc_bytes;
  if (probed == Attribute::probed_allreduce_bytes_per_s) return Attribute::interconnect_bytes_per_s;
  std::string name(name_of(probed).substr(std::string_view("probed_").size()));
  if (name.ends_with("_flops")) name = "peak_" + name;
  for (std::size_t i = 0; i < attribute_count; ++i) {
    if (attribute_table()[i].name == name) return static_cast<Attribute>(i);
  }
  return std::nullopt;
}

std::string format_attribute(Attribute attribute, double value) {
  const std::string units(attribute_table()[static_cast<std::size_t>(attribute)].units);
  if (std::isnan(value)) return "-";
  return units == "s"   ? format_seconds(value)
         : units == "B" ? format_bytes(value)
                        : format_si(value, units);
}

/// What the catalogue has of this GPU. Where it is not of that very class (a power cap of its own),
/// only the nominal figures hold; a slice of a card has no entry.
std::optional<Device> catalogued(const Device& here) {
  if (here.kind != "gpu") return std::nullopt;
  const auto name = shipped_gpu(here.name);
  if (!name) return std::nullopt;
  Device device = find_device(*name);
  if (here.device_class == *name) return device;
  device.device_class = here.device_class;
  device.name = here.name;
  device.cuda_names.clear();
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if (is_probed(attribute)) device.set(attribute, std::nan(""));
  }
  device.set(Attribute::power_cap_w, here[Attribute::power_cap_w]);
  device.set_bandwidth_curve({});
  return device;
}

/// What the named device says of itself, and the probe of this one.
Device described_by(const Device& named, const Device& here, const std::string& name) {
  if (named.kind != here.kind) {
    throw UsageError(fmt::format("--device {}: it is a {}, and the device here, {}, is a {}", name,
                                 named.kind, here.device_class, here.kind));
  }
  if (named.kind == "cpu" && named.has(Attribute::cores) &&
      named[Attribute::cores] != here[Attribute::cores]) {
    throw UsageError(fmt::format(
        "--device {}: it has {}, and the device here, {}, has {}; see --cores, or how this "
        "process is bound",
        name, format_counted(named[Attribute::cores], "core"), here.device_class,
        here[Attribute::cores]));
  }
  Device device = named;
  device.uuid = here.uuid;
  device.host = here.host;
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if (here.has(attribute) && (is_probed(attribute) || !device.has(attribute))) {
      device.set(attribute, here[attribute]);
    }
  }
  if (!here.bandwidth_curve().empty()) device.set_bandwidth_curve(here.bandwidth_curve());
  return device;
}

/// Where this GPU is by its own name another one than the named device; else empty.
std::string mistaken(const Device& named, const Device& here, const std::string& name) {
  if (named.cuda_names.empty() || named.device_class == here.device_class) return {};
  return fmt::format("--device {}: the device here is {}, of class {}; the file says {}", name,
                     here.name, here.device_class, named.device_class);
}

/// Rates of a GPU that its data sheet rules out; else empty. Of a CPU nominal peaks are those of
/// the base clock, which it may well exceed.
std::string beyond_nominal(const Device& device) {
  constexpr double absurd = 1.1;
  std::string figures;
  for (std::size_t i = 0; i < attribute_count && device.kind == "gpu"; ++i) {
    const auto probed = static_cast<Attribute>(i);
    if (!is_probed(probed) || !attribute_table()[i].units.ends_with("/s")) continue;
    const auto nominal = nominal_of(probed);
    if (!nominal || !(device[probed] > absurd * device[*nominal])) continue;
    figures += fmt::format("{}{} is {} of the nominal figure", figures.empty() ? "" : ", ",
                           name_of(probed), format_percent(device[probed] / device[*nominal], 0));
  }
  return figures.empty()
             ? figures
             : fmt::format("{}: is this a {}? see --device", figures, device.device_class);
}

std::string doubt(const ProbeReport& report, double spread, bool throttled) {
  if (throttled) return "throttled";
  return spread > doubtful || report.rounds < ProbeReport::enough_rounds ? "doubtful" : "";
}

/// For people: what was found beside what the device is said to have.
std::string tables_of(const Device& device, const ProbeReport& report) {
  TextTable figures({"figure", ">nominal", ">probed", ">reached", ">spread", ""});
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const auto probed = static_cast<Attribute>(i);
    if (!is_probed(probed) || !device.has(probed)) continue;
    const auto counterpart = nominal_of(probed);
    const double nominal = counterpart ? device[*counterpart] : std::nan("");
    const auto spread = report.spread.find(probed);
    const bool known = spread != report.spread.end();
    figures.add({std::string(name_of(probed)), format_attribute(probed, nominal),
                 format_attribute(probed, device[probed]),
                 std::isnan(nominal) ? "-" : format_percent(device[probed] / nominal, 0),
                 known ? format_percent(spread->second) : "-",
                 known ? doubt(report, spread->second, report.throttled.contains(probed)) : ""});
  }
  TextTable curve({">working set", ">bandwidth", ">spread", ""});
  for (const auto& [bytes, bytes_per_s] : device.bandwidth_curve()) {
    const auto spread = report.curve_spread.find(bytes);
    const bool known = spread != report.curve_spread.end();
    curve.add({format_bytes(bytes), format_si(bytes_per_s, "B/s"),
               known ? format_percent(spread->second) : "-",
               known ? doubt(report, spread->second, report.curve_throttled.contains(bytes)) : ""});
  }
  return figures.str() + (curve.empty() ? "" : "\n" + curve.str());
}

/// The device file, and how it came about in its comments.
std::string file_of(const Device& device, const ProbeReport& report, double seconds,
                    int ranks_of_host) {
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  std::string text = fmt::format(
      "{}, {:%Y-%m-%dT%H:%M:%SZ}, forecost {}:\n# {} in {:.0f} s, {} at once on this host. "
      "A quarter of the rounds reached these figures; the median one was below them by\n",
      first_line, fmt::gmtime(now), version, format_counted(report.rounds, "round"), seconds,
      format_counted(ranks_of_host, "device"));
  for (const auto& [attribute, spread] : report.spread) {
    text += fmt::format("#   {:<36} {:>7} {}\n", name_of(attribute), format_percent(spread),
                        doubt(report, spread, report.throttled.contains(attribute)));
    text.erase(text.find_last_not_of(" \n") + 1) += "\n";
  }
  for (const std::string& warning : report.warnings) text += fmt::format("# {}\n", warning);
  return text + device_toml(device);
}

/// A throttled card, a busy neighbour: devices of one class that differ are worth a look.
void tell_differences(const DeviceGroup& group) {
  const Device* first = nullptr;
  for (std::size_t rank = 0; rank < group.members.size(); ++rank) {
    const auto& member = group.members[rank];
    if (!member.has_device) continue;
    if (first == nullptr) first = &member.device;
    for (std::size_t i = 0; i < attribute_count; ++i) {
      const auto attribute = static_cast<Attribute>(i);
      const double value = member.device[attribute], change = value / (*first)[attribute] - 1;
      if (!is_probed(attribute) || !(std::abs(change) > doubtful)) continue;
      spdlog::warn("rank {} on {} ({}): {} is {}, {:+.0f} % of the first device's", rank,
                   member.host, member.device.uuid, name_of(attribute),
                   format_attribute(attribute, value), 100 * change);
    }
  }
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  // clang-format off
  options.add_options()
      ("output,o", po::value<std::string>()->required(), "the device file; - is the standard output")
      ("device", po::value<std::string>(), "a shipped device or device file: class, name and nominal figures")
      ("backend", po::value<std::string>()->default_value("auto"), "auto, cpu, cuda")
      ("cores", po::value<int>()->default_value(0), "processors of a CPU device; 0: those bound")
      ("seconds", po::value<double>()->default_value(thorough_probe_s), "to spend, at most 50; three rounds at least, or 10 s");
  // clang-format on
  po::variables_map values;
  bool asked_for_help = false;
  std::string output;
  double budget_s = 0;
  std::unique_ptr<TimingBackend> backend;
  std::optional<Device> named;
  std::string notes;
  std::vector<std::string> warnings;
  agree(world, [&] {
    asked_for_help = !parse(world, help, options, 0, arguments, values);
    if (asked_for_help) return;
    output = values["output"].as<std::string>();
    budget_s = positive_number(values, "seconds");
    if (budget_s > 50) throw UsageError(fmt::format("--seconds {}: expected at most 50", budget_s));
    backend = open_backend(values["backend"].as<std::string>(),
                           {cores_of(values), world.local_rank(), world.local_size(), world.rank(),
                            world.size(), "", 0},
                           &warnings);
    if (values.count("device") > 0 && backend) {
      const auto name = values["device"].as<std::string>();
      named = find_device(name);
      (void)described_by(*named, backend->device(), name);
      notes = mistaken(*named, backend->device(), name);
    } else if (backend) {
      named = catalogued(backend->device());
    }
    if (backend && backend->protocol() == Protocol::virtual_clock) {
      throw UsageError(
          fmt::format("the {} backend plays devices: it has nothing to probe", backend->name()));
    }
  });
  if (asked_for_help) return ExitCode::done;

  warn_together(world, warnings);
  DeviceGroup group = gather_devices(world, backend.get());
  const bool to_stdout = output == "-";
  agree(world, [&] {
    if (world.rank() != 0) return;
    if (const auto classes = group.classes(); classes.size() > 1) {
      throw EnvironmentError(fmt::format(
          "the ranks have devices of {} classes, {} and {} among them: probe one class at a time",
          classes.size(), classes[0].device_class, classes[1].device_class));
    }
    if (to_stdout) return;
    check_text_output(output, "-o", "device file of an earlier probe",
                      [](const std::string& line) { return line.starts_with(first_line); });
  });

  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  ProbeReport report;
  agree(world, [&] {
    if (!backend) return;
    const auto total = static_cast<std::uint64_t>(std::ceil(budget_s));
    Progress progress("probe", "seconds", total, world.rank() != 0);
    report = backend->probe(budget_s, [&] {
      progress.update(std::min(total, static_cast<std::uint64_t>(elapsed_s())));
    });
  });
  warn_together(world, report.warnings);
  if (const auto spread = probe_all_reduce(world, backend.get(), 2)) {
    report.spread[Attribute::probed_allreduce_bytes_per_s] = *spread;
  }
  const double seconds = elapsed_s();
  group = gather_devices(world, backend.get());

  std::string file, tables;
  if (backend) {
    const Device& here = backend->device();
    const Device device = named ? described_by(*named, here, named->device_class) : here;
    if (const auto beyond = beyond_nominal(device); !beyond.empty()) {
      notes += (notes.empty() ? "" : "; ") + beyond;
    }
    file = file_of(device, report, seconds, group.neighbours(world.rank()) + 1);
    tables =
        fmt::format("{} ({}): {} in {:.0f} s\n\n{}\n", device.device_class, device.name,
                    format_counted(report.rounds, "round"), seconds, tables_of(device, report));
  }
  const int first = group.first_of(group.classes().front().device_class);
  file = world.broadcast(file, first);
  tables = world.broadcast(tables, first);
  notes = world.broadcast(notes, first);
  agree(world, [&] {
    if (world.rank() != 0) return;
    // Results go to the standard output; with -o - the file is the result.
    (to_stdout ? std::cerr : std::cout) << tables;
    if (to_stdout) {
      std::cout << file;
    } else {
      replace_text(output, file);
      std::cout << fmt::format("{}: a device file for --device\n", output);
    }
    if (!notes.empty()) spdlog::warn("{}", notes);
    tell_differences(group);
  });
  return ExitCode::done;
}

}  // namespace

extern const Verb probe_verb;
const Verb probe_verb{"probe", "find out what this device reaches", &run};

}  // namespace forecost::cli
