#pragma once

#include <span>
#include <vector>

#include "data/device.hpp"
#include "data/h5/h5.hpp"

namespace forecost {

// The table of devices that corpora and models hold alike.

/// Fills an empty group with a row for each device: id, name, vendor, kind, device_class, uuid,
/// host, and every attribute with its units, NaN where unknown. The points of all bandwidth
/// curves lie one after the other in curve_bytes and curve_bytes_per_s; a device's begin at its
/// curve_begin and end where the next one's begin.
void write_devices(h5::Group& group, std::span<const Device> devices);

/// Throws DataError. A column that is missing is younger than the file; its values are unknown.
std::vector<Device> read_devices(const h5::Group& group);

}  // namespace forecost
