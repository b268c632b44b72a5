/*
 * The type Operator: a kernel of torch.ops.weir that writes to an argument. PyTorch calls it with
 * the arguments of the operator's schema, less trailing defaults. What the group's Caller declines
 * goes to a Python function with the same arguments, such as the first call of a group or one on
 * another stream.
 */
#include "native.h"

typedef struct native_operator {
    PyObject_HEAD int collective;
    PyObject *callers; /* dict: name of a group -> Caller */
    PyObject *slow;    /* called if the Caller declines */
    PyObject *fail;    /* called with the group's name and a weir_status; raises */
} native_operator;

/* Where an operator's arguments are; -1: it has none. */
typedef struct operator_places {
    int data, out, op, root, group;
} operator_places;

static const operator_places *operator_places_of(int collective)
{
    static const operator_places all_reduce = {0, -1, 1, -1, 2}, broadcast = {0, -1, -1, 1, 2},
                                 all_gather = {1, 0, -1, -1, 2}, reduce_scatter = {1, 0, 2, -1, 3};
    switch (collective) {
    case WEIR_COLL_ALLREDUCE:
        return &all_reduce;
    case WEIR_COLL_BROADCAST:
        return &broadcast;
    case WEIR_COLL_ALLGATHER:
        return &all_gather;
    case WEIR_COLL_REDUCE_SCATTER:
        return &reduce_scatter;
    default:
        return NULL;
    }
}

/* Returns an argument, borrowed; NULL if it was not passed. */
static PyObject *operator_argument(PyObject *arguments, Py_ssize_t count, int place)
{
    return place >= 0 && place < count ? PyTuple_GetItem(arguments, place) : NULL;
}

static int operator_run(native_operator *self, PyObject *arguments, PyObject *group)
{
    const operator_places *at = operator_places_of(self->collective);
    Py_ssize_t count = PyTuple_Size(arguments);
    PyObject *data = operator_argument(arguments, count, at->data);
    PyObject *root = operator_argument(arguments, count, at->root);
    PyObject *caller = PyDict_GetItemWithError(self->callers, group);
    long number = root ? PyLong_AsLong(root) : 0;
    if (PyErr_Occurred())
        PyErr_Clear();
    else if (caller && data)
        return native_caller_run(caller, (weir_collective)self->collective, data,
                                 operator_argument(arguments, count, at->out),
                                 operator_argument(arguments, count, at->op), number, 1);
    return NATIVE_DECLINED;
}

static PyObject *operator_call(PyObject *object, PyObject *arguments, PyObject *names)
{
    static PyObject *default_group;
    native_operator *self = (native_operator *)object;
    if (!default_group && !(default_group = PyUnicode_InternFromString("")))
        return NULL;
    if (!names || PyDict_Size(names) == 0) {
        PyObject *group = operator_argument(arguments, PyTuple_Size(arguments),
                                            operator_places_of(self->collective)->group);
        int status = operator_run(self, arguments, group ? group : default_group);
        if (status == WEIR_OK)
            Py_RETURN_NONE;
        if (status != NATIVE_DECLINED)
            return PyObject_CallFunction(self->fail, "Oi", group ? group : default_group, status);
    }
    return PyObject_Call(self->slow, arguments, names);
}

static PyObject *operator_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    int collective;
    PyObject *callers, *slow, *fail;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "iO!OO", &collective, &PyDict_Type, &callers, &slow, &fail))
        return NULL;
    if (!operator_places_of(collective))
        return PyErr_Format(PyExc_ValueError, "collective %d has no operator", collective);
    allocfunc allocate = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    native_operator *self = (native_operator *)allocate(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(callers), Py_INCREF(slow), Py_INCREF(fail);
    self->collective = collective;
    self->callers = callers;
    self->slow = slow;
    self->fail = fail;
    return (PyObject *)self;
}

static void operator_free(PyObject *object)
{
    native_operator *self = (native_operator *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->callers);
    Py_XDECREF(self->slow);
    Py_XDECREF(self->fail);
    ((freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyType_Slot operator_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)operator_new},
    {Py_tp_dealloc, (void *)(uintptr_t)operator_free},
    {Py_tp_call, (void *)(uintptr_t)operator_call},
    {0, NULL},
};

PyObject *native_operator_type(void)
{
    static PyType_Spec spec = {"weir._native.Operator", sizeof(native_operator), 0,
                               Py_TPFLAGS_DEFAULT, operator_slots};
    return PyType_FromSpec(&spec);
}
