// The extension module gradwire.torch._torch: the class of the agent.
#include <cstring>

#include "agent.h"
#include "core/capi.h"
#include "faulty.h"

namespace py = pybind11;

static void load_core() {
    auto capsule = py::module_::import("gradwire._core").attr("capi");
    auto table =
        static_cast<const core_capi *>(PyCapsule_GetPointer(capsule.ptr(), CORE_CAPI_NAME));
    if (!table) throw py::error_already_set();
    if (table->version != CORE_CAPI_VERSION)
        throw py::import_error("gradwire.torch is of another version than gradwire");
    core = table;
    core->set_register(Agent::register_functions);
}

PYBIND11_MODULE(_torch, m) {
    using Unlocked = py::call_guard<py::gil_scoped_release>;
    py::module_::import("torch.distributed.rpc");
    load_core();
    m.def("is_served", &Agent::is_served);
    py::class_<Agent, rpc::RpcAgent, std::shared_ptr<Agent>>(m, "GradwireAgent")
        .def(py::init<std::vector<std::string>, int, float, int>())
        .def("join", &Agent::join, Unlocked(), py::arg("shutdown") = false, py::arg("timeout") = 0)
        .def("sync", &Agent::sync, Unlocked())
        .def(
            "shutdown", [](Agent &a) { a.shutdown(); }, Unlocked())
        .def("get_worker_info", [](const Agent &a) { return a.getWorkerInfo(); })
        .def("get_worker_info",
             [](const Agent &a, const std::string &name) { return a.getWorkerInfo(name); })
        .def("get_worker_info",
             [](const Agent &a, rpc::worker_id_t id) { return a.getWorkerInfo(id); })
        .def("is_running", &Agent::is_running)
        .def("get_worker_infos", &Agent::getWorkerInfos);
    py::class_<FaultyAgent, Agent, std::shared_ptr<FaultyAgent>>(m, "FaultyAgent")
        .def(py::init<std::vector<std::string>, int, float, int, int, std::set<int>,
                      std::map<int, float>>());
}
