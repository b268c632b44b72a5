/*
 * The module weir._native: its functions, types and initialisation. weir/_native.pyi describes it
 * for Python.
 */
#include "native.h"

native_library native_weir;

static int module_take(PyObject *table, const char *name, void *function)
{
    PyObject *address = PyDict_GetItemString(table, name);
    void *value = address ? PyLong_AsVoidPtr(address) : NULL;
    if (!value && !PyErr_Occurred())
        PyErr_Format(PyExc_KeyError, "bind: no address of %s", name);
    *(void **)function = value;
    return value != NULL;
}

/* bind({name: address}): the functions of the library */
static PyObject *module_bind(PyObject *module, PyObject *table)
{
    (void)module;
    if (!PyDict_Check(table)) {
        PyErr_SetString(PyExc_TypeError, "bind takes a dictionary of addresses");
        return NULL;
    }
    if (!module_take(table, "weir_run", &native_weir.run) ||
        !module_take(table, "weir_mem_alloc", &native_weir.mem_alloc) ||
        !module_take(table, "weir_mem_pointer", &native_weir.mem_pointer) ||
        !module_take(table, "weir_mem_free", &native_weir.mem_free))
        return NULL;
    return PyLong_FromSize_t(sizeof(weir_call));
}

static PyMethodDef module_methods[] = {
    {"bind", module_bind, METH_O, NULL},
    {"read", native_read, METH_O, NULL},
    {"stream", native_stream, METH_O, NULL},
    {"learn_arrays", native_learn_arrays, METH_VARARGS, NULL},
    {"learn_tensors", native_learn_tensors, METH_VARARGS, NULL},
    {"pool_open", native_pool_open, METH_VARARGS, NULL},
    {"pool_close", native_pool_close, METH_VARARGS, NULL},
    {"pool_memories", native_pool_memories, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    "weir._native",
    "Calls without examination of arrays by Python.",
    -1,
    module_methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

static int module_add(PyObject *module, const char *name, PyObject *type)
{
    if (type && PyModule_AddObject(module, name, type) == 0)
        return 1;
    Py_XDECREF(type);
    return 0;
}

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    if (module && module_add(module, "Caller", native_caller_type()) &&
        module_add(module, "Operator", native_operator_type()))
        return module;
    Py_XDECREF(module);
    return NULL;
}
