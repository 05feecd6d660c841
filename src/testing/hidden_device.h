// A device for tests whose memory the CPU's code cannot read or write: its pages are opened only
// while one of the device's own functions or kernels runs, and all other code that follows an
// address there crashes.
//
// The kernels of the device are the CPU's, run on the open pages; there are kernels for elementwise operators,
// products, sums and copies, and for the rules of SGD and Adam.
#ifndef TESTING_HIDDEN_DEVICE_H
#define TESTING_HIDDEN_DEVICE_H

#include "tensor/device.h"

gw_device hidden_device(void);        // registered by the first call; "hidden"
int hidden_device_blocks(void);       // there are
int hidden_device_kernel_runs(void);  // so far

#endif
