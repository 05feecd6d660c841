// gradwire: remote calls, references, backward and optimizers over many workers, in C.
//
// The headers in reading order are the manual.
#ifndef GRADWIRE_H
#define GRADWIRE_H

#include <gradwire/version.h>
#include <gradwire/status.h>
#include <gradwire/log.h>
#include <gradwire/scope.h>
#include <gradwire/value.h>
#include <gradwire/args.h>
#include <gradwire/tensor.h>
#include <gradwire/ops.h>
#include <gradwire/autograd.h>
#include <gradwire/data.h>
#include <gradwire/nn.h>
#include <gradwire/checkpoint.h>
#include <gradwire/optim.h>
#include <gradwire/amp.h>
#include <gradwire/function.h>
#include <gradwire/rpc.h>
#include <gradwire/ref.h>
#include <gradwire/module_remote.h>
#include <gradwire/dist.h>
#include <gradwire/membership.h>
#include <gradwire/process.h>
#include <gradwire/group.h>
#include <gradwire/collective.h>
#include <gradwire/ddp.h>
#include <gradwire/comm_hook.h>
#include <gradwire/join.h>
#include <gradwire/parallel.h>

#endif
