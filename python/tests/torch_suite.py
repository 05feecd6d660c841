"""PyTorch's own tests of torch.distributed.rpc, from its installed package, with gradwire and with TensorPipe.

    python3 -m pytest torch_suite.py -k GradwireRpcTest          # some of them; torch_table.py runs all and compares

The processes of a test are forked, not spawned: each would import torch anew.
"""
import importlib.util
import sys
import types
import unittest

import gradwire.torch
from gradwire.torch.shard import load_shard

load_shard()
if not importlib.util.find_spec("expecttest"):  # not in Debian; of it, these tests need the name of a class
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase, sys.modules["expecttest"].ACCEPT = unittest.TestCase, False

import torch  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
from torch.testing._internal.common_distributed import MultiProcessTestCase  # noqa: E402
from torch.testing._internal.distributed import rpc_utils  # noqa: E402
from torch.testing._internal.distributed.rpc.rpc_agent_test_fixture import RpcAgentTestFixture  # noqa: E402
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (  # noqa: E402
    TensorPipeRpcAgentTestFixture)


class Forks:
    """Starts the processes of a test."""

    def _spawn_processes(self):
        MultiProcessTestCase._start_processes(self, torch.multiprocessing.get_context("fork").Process)


class GradwireFixture(Forks, RpcAgentTestFixture):
    """The backend gradwire."""

    @property
    def rpc_backend(self):
        return rpc.backend_registry.BackendType["GRADWIRE"]

    @property
    def rpc_backend_options(self):
        return gradwire.torch.GradwireRpcBackendOptions(init_method=self.init_method)

    def get_shutdown_error_regex(self):
        return "worker[0-9]+"  # each error names the worker that is gone

    def get_timeout_error_regex(self):
        return "RPC ran for more than"


class TensorPipeFixture(Forks, TensorPipeRpcAgentTestFixture):
    """TensorPipe, to compare with."""


for prefix, fixture in (("Gradwire", GradwireFixture), ("TensorPipe", TensorPipeFixture)):
    globals().update(rpc_utils.generate_tests(prefix, fixture, rpc_utils.GENERIC_TESTS, __name__))
