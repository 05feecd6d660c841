"""PyTorch's own tests of torch.distributed.rpc, from its installed package, with gradwire and with TensorPipe.

    python3 -m pytest torch_suite.py -k GradwireRpcTest          # some of them; torch_table.py runs all and compares

The processes of a test are forked, not spawned: each would import torch anew.
"""
import importlib.util
import sys
import types
import unittest

import gradwire.torch
from gradwire.torch import extension
from gradwire.torch.shard import load_shard

load_shard()
if not importlib.util.find_spec("expecttest"):  # not in Debian; of it, these tests need the name of a class
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase, sys.modules["expecttest"].ACCEPT = unittest.TestCase, False

import torch  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
from torch.testing._internal.common_distributed import MultiProcessTestCase  # noqa: E402
from torch.testing._internal.distributed import rpc_utils  # noqa: E402
from torch.testing._internal.distributed.rpc.faulty_rpc_agent_test_fixture import (  # noqa: E402
    FaultyRpcAgentTestFixture)
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


MESSAGE_TYPES = {"SCRIPT_CALL": 0x100, "PYTHON_CALL": 0x102, "SCRIPT_REMOTE_CALL": 0x104, "PYTHON_REMOTE_CALL": 0x105,
                 "SCRIPT_RREF_FETCH_CALL": 0x107, "PYTHON_RREF_FETCH_CALL": 0x108, "RREF_USER_DELETE": 0x10b,
                 "RREF_FORK_REQUEST": 0x10c, "RREF_CHILD_ACCEPT": 0x10d, "CLEANUP_AUTOGRAD_CONTEXT_REQ": 0x113}


class FaultyOptions(gradwire.torch.GradwireRpcBackendOptions):
    """Options of torch's faulty agent, for an agent of gradwire with the same faults."""

    def __init__(self, num_fail_sends, messages_to_fail, messages_to_delay, **options):
        super().__init__(**options)
        self.num_fail_sends, self.messages_to_fail = num_fail_sends, messages_to_fail
        self.messages_to_delay = messages_to_delay

    def make_agent(self, names, rank):
        return extension.module.FaultyAgent(
            names, rank, self.rpc_timeout, self.num_worker_threads, self.num_fail_sends,
            {MESSAGE_TYPES[name] for name in self.messages_to_fail},
            {MESSAGE_TYPES[name]: delay for name, delay in self.messages_to_delay.items()})


class GradwireFaultyFixture(Forks, FaultyRpcAgentTestFixture):
    """The backend gradwire, with an agent that fails messages."""

    @property
    def rpc_backend(self):
        return rpc.backend_registry.BackendType["GRADWIRE"]

    @property
    def rpc_backend_options(self):
        return FaultyOptions(init_method=self.init_method, num_worker_threads=8, num_fail_sends=3,
                             messages_to_fail=self.messages_to_fail, messages_to_delay=self.messages_to_delay)


class TensorPipeFaultyFixture(Forks, FaultyRpcAgentTestFixture):
    """TensorPipe with faults, to compare with."""


for prefix, fixture in (("Gradwire", GradwireFaultyFixture), ("TensorPipe", TensorPipeFaultyFixture)):
    globals().update(rpc_utils.generate_tests(prefix, fixture, rpc_utils.FAULTY_AGENT_TESTS, __name__))
for name in [name for name in globals() if name.startswith("GradwireFaulty")]:
    globals()[name].test_verify_backend_options = None  # of TensorPipe's options
for prefix, fixture in (("Gradwire", GradwireFixture), ("TensorPipe", TensorPipeFixture)):
    globals().update(rpc_utils.generate_tests(prefix, fixture, rpc_utils.GENERIC_TESTS, __name__))
