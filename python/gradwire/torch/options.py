"""Options of the backend."""
from __future__ import annotations

from typing import Any, Iterable, Optional

import torch
from gradwire import _core
from torch.distributed.rpc import RpcBackendOptions, constants

from . import extension, meeting

JOIN_TIMEOUT_S = 300


class GradwireRpcBackendOptions(RpcBackendOptions):  # type: ignore[misc]
    """Options of init_rpc for the backend gradwire.

        options = GradwireRpcBackendOptions(rpc_timeout=20, key="job.key")

    num_worker_threads: threads that run requests; more are added while all of them wait.
    rpc_timeout: seconds of each call; 0: no limit.
    init_method: where torch's store is, as for TensorPipe. Workers exchange their address there, and never a key. After
    gradwire.init the default is "gradwire://": no store is opened.
    key: the file of the job's key (gradwire key). None: that of the launcher, or of GW_KEY_FILE; without these, workers
    of one host make one.
    join_timeout: seconds until all workers have joined.
    device_maps, devices: must be empty, or name the CPU alone: this backend carries CPU tensors.
    """

    def __init__(self, *, num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
                 rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
                 init_method: str = constants.DEFAULT_INIT_METHOD, key: Optional[str] = None,
                 join_timeout: float = JOIN_TIMEOUT_S, device_maps: Optional["dict[str, dict[Any, Any]]"] = None,
                 devices: Optional[Iterable[Any]] = None) -> None:
        if num_worker_threads <= 0:
            raise ValueError(f"num_worker_threads must be positive, got {num_worker_threads}")
        _check_devices(device_maps or {}, devices or ())
        super().__init__()
        self.rpc_timeout = rpc_timeout
        is_joined = init_method == constants.DEFAULT_INIT_METHOD and _core.is_initialized()
        self.init_method = meeting.JOINED if is_joined else init_method
        self.num_worker_threads = num_worker_threads
        self.key = key
        self.join_timeout = join_timeout

    def make_agent(self, names: "list[str]", rank: int) -> Any:
        """Makes the agent of a worker that has joined; |names| of all workers."""
        return extension.module.GradwireAgent(names, rank, self.rpc_timeout, self.num_worker_threads)


def _check_devices(maps: "dict[str, dict[Any, Any]]", devices: Iterable[Any]) -> None:
    used = {torch.device(d) for pairs in maps.values() for pair in pairs.items() for d in pair}
    used |= {torch.device(d) for d in devices}
    others = sorted(str(d) for d in used if d.type != "cpu")
    if others:
        raise ValueError(f"the backend gradwire carries CPU tensors only, not those of {', '.join(others)}")


def construct(rpc_timeout: float, init_method: str, _transports: Any = None, _channels: Any = None,
              **options: Any) -> GradwireRpcBackendOptions:
    """Makes options for torch's construct_rpc_backend_options. TensorPipe's transports and channels are ignored."""
    return GradwireRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method, **options)


def of_tensorpipe(options: Any) -> GradwireRpcBackendOptions:
    """Converts TensorPipeRpcBackendOptions."""
    return GradwireRpcBackendOptions(num_worker_threads=options.num_worker_threads, rpc_timeout=options.rpc_timeout,
                                     init_method=options.init_method, device_maps=options.device_maps,
                                     devices=options.devices)
