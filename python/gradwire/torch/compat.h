// What differs between versions of PyTorch, which has no stable interface for agents: 1.13 here, 2.x where known.
#ifndef PYTHON_TORCH_COMPAT_H
#define PYTHON_TORCH_COMPAT_H

#include <torch/csrc/distributed/rpc/message.h>
#include <torch/csrc/distributed/rpc/python_rpc_handler.h>
#include <torch/csrc/distributed/rpc/request_callback_impl.h>
#include <torch/csrc/distributed/rpc/rpc_agent.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/csrc/distributed/rpc/rref_proto.h>
#include <torch/csrc/distributed/rpc/utils.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/unpickler.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

namespace rpc = torch::distributed::rpc;

using FuturePtr = c10::intrusive_ptr<rpc::JitFuture>;
using MessagePtr = c10::intrusive_ptr<rpc::Message>;

// The bytes of a storage, which the library may read until the storage is released.
inline void *compat_data(const at::Storage &storage) {
#if TORCH_VERSION_MAJOR >= 2
    return storage.mutable_data();
#else
    return storage.data();
#endif
}

inline size_t compat_size(const at::Storage &storage) {
    return storage.nbytes();
}

#endif
