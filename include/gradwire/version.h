// The version of the library.
//
// GW_VERSION is the version of the headers with which a program was compiled. gw_version() returns the version of the
// library with which the program runs:
//
//     printf("compiled with gradwire %s, running with %s\n", GW_VERSION, gw_version());
//
// The preprocessor compares numbers:
//
//     #if GW_VERSION_NUMBER < 100
//     #error "gradwire 0.1.0 or later is needed"
//     #endif
//
// Two versions with the same major and minor number have the same ABI: a program that was compiled for one version also
// runs with the other. If the major or minor number differs, the program must be compiled again (docs/ABI.md).
#ifndef GRADWIRE_VERSION_H
#define GRADWIRE_VERSION_H

#include <gradwire/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// CMake reads the three macros below. The library's file name, its SONAME, and the versions in the CMake package and in
// pkg-config follow from them.

/// The parts of the version.
#define GW_VERSION_MAJOR 0
#define GW_VERSION_MINOR 1
#define GW_VERSION_PATCH 0

/// The version as one number: 100 for 0.1.0.
#define GW_VERSION_NUMBER (GW_VERSION_MAJOR * 10000 + GW_VERSION_MINOR * 100 + GW_VERSION_PATCH)
/// The version as a string: "0.1.0".
#define GW_VERSION GW_VERSION_STRING_(GW_VERSION_MAJOR, GW_VERSION_MINOR, GW_VERSION_PATCH)
#define GW_VERSION_STRING_(major, minor, patch) GW_VERSION_JOINED_(major, minor, patch)
#define GW_VERSION_JOINED_(major, minor, patch) #major "." #minor "." #patch

/// Returns the version of the library that the program runs with, encoded as in GW_VERSION. Valid until the process
/// ends.
///
/// Threads: any, at any time.
GW_API const char *gw_version(void);

#ifdef __cplusplus
}
#endif
#endif
