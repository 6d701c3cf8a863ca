#!/usr/bin/env bash
# What Forecost needs from the system, and how to get it. Sourced by the other scripts; run by itself
# it prints the lists.

forecost_debian_build=(g++ cmake ninja-build pkg-config ca-certificates
  libopenmpi-dev openmpi-bin libhdf5-dev libeigen3-dev libboost-program-options-dev
  libdnnl-dev libhwloc-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
  libssl-dev zlib1g-dev libcsv-dev libmuparser-dev)
forecost_debian_test=(libgtest-dev libgmock-dev python3-h5py python3-pandas python3-xarray python3-h5netcdf
  hdf5-tools shellcheck git)
# shellcheck disable=SC2034  # for those who source this file
forecost_debian_bench=(libbenchmark-dev hdf5-tools bc python3-torch libopenblas0-pthread)

forecost_spack_specs=(cmake ninja pkgconf openmpi hdf5+hl~mpi eigen boost+program_options onednn hwloc
  tomlplusplus nlohmann-json fmt spdlog openssl zlib muparser)
forecost_modules=(GCC/12 CMake OpenMPI HDF5 Eigen Boost oneDNN hwloc)

print_equivalents() {
  cat <<EOF
Debian/Ubuntu, as root:
  apt-get install --no-install-recommends $*
Spack:
  spack install ${forecost_spack_specs[*]}
  spack load ${forecost_spack_specs[*]%%[+~]*}
  and from source: libcsv
Environment modules (names differ from site to site; a compiler with C++20, CMake 3.21 or newer):
  module load ${forecost_modules[*]}
  and from source or Spack: toml++, nlohmann-json, fmt, spdlog, muParser; from source: libcsv
EOF
}

# install_packages PACKAGE...: installs what is missing with apt, as root or through sudo without a
# password. Where it cannot, it prints the lists and goes on: CMake tells what is really missing.
install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system; the packages it needs are:" >&2
    print_equivalents "$@" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "All ${#} packages are installed."
    return 0
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    else
      echo "Missing packages, and neither root nor password-free sudo to install them: ${missing[*]}" >&2
      print_equivalents "${missing[@]}" >&2
      echo "Going on in case they are there in another form." >&2
      return 0
    fi
  fi
  echo "Installing ${#missing[@]} packages with apt: ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get failed (whole log: $log). Needed are:" >&2
    print_equivalents "${missing[@]}" >&2
    return 3
  fi
  rm -f "$log"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  print_equivalents "${forecost_debian_build[@]}" "${forecost_debian_test[@]}"
fi
