"""The backend gradwire of torch.distributed.rpc.

    import gradwire.torch                                   # registers BackendType.GRADWIRE
    rpc.init_rpc("worker0", rank=0, world_size=2, backend=rpc.BackendType.GRADWIRE)

``python3 -m gradwire.torch train.py`` runs a program that names no backend, or TENSORPIPE. docs/PYTHON.md is
the manual.
"""
from .backend import register, use_for_all
from .options import GradwireRpcBackendOptions

register()

__all__ = ["GradwireRpcBackendOptions", "use_for_all"]
