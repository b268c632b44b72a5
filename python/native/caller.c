/*
 * The type Caller: calls on one communicator. It is also the lock that serialises the calls of
 * threads, here and in Python, and counts them, so that Ctrl-C ends
 * only a call that is blocked. The interpreter lock is released during a call.
 */
#include "native.h"

#include <pythread.h>
#include <structmember.h>
#include <string.h>

typedef struct caller {
    PyObject_HEAD weir_comm *comm; /* NULL: calls are declined */
    int device;                    /* -1: memory of the process */
    int size, rank;
    int is_locked;
    int has_stream; /* calls in order: `stream` is that of the latest one */
    void *stream;
    unsigned long long calls;
    PyThread_type_lock lock;
} caller;

static void caller_lock(caller *self)
{
    if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    self->is_locked = 1;
}

static void caller_unlock(caller *self)
{
    self->is_locked = 0;
    PyThread_release_lock(self->lock);
}

static int caller_execute(caller *self, const weir_call *call)
{
    weir_status status = (weir_status)NATIVE_DECLINED;
    caller_lock(self);
    weir_comm *comm = self->comm;
    if (comm) {
        self->calls++;
        Py_BEGIN_ALLOW_THREADS status = native_weir.run(comm, call);
        Py_END_ALLOW_THREADS
    }
    caller_unlock(self);
    return (int)status;
}

static int caller_op(PyObject *name)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg"};
    if (name && PyUnicode_Check(name))
        for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
            if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
                return i;
    return name ? -1 : 0;
}

/* Whether two arrays share no memory, or are placed as the collective is called in place. */
static int caller_may_overlap(const caller *self, const weir_call *call, const native_span *in,
                              const native_span *out)
{
    const char *data = in->data, *result = out->data;
    if (data + in->bytes <= result || result + out->bytes <= data)
        return 1;
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
    case WEIR_COLL_BROADCAST:
    case WEIR_COLL_REDUCE:
        return data == result;
    case WEIR_COLL_ALLGATHER:
        return data == result + (size_t)self->rank * in->bytes;
    case WEIR_COLL_REDUCE_SCATTER:
        return result == data + (size_t)self->rank * out->bytes;
    default:
        return 0;
    }
}

/* Fills in the arrays of a call. Returns 0 if it is one that Python must examine. */
static int caller_fill(const caller *self, weir_call *call, const native_span *in,
                       const native_span *out)
{
    size_t ratio_in = 1, ratio_out = 1, n = (size_t)self->size;
    if (call->collective == WEIR_COLL_REDUCE_SCATTER)
        ratio_in = n;
    if (call->collective == WEIR_COLL_ALLGATHER)
        ratio_out = n;
    if (in->device != self->device || out->device != self->device || out->is_readonly ||
        in->dtype != out->dtype || in->bytes * ratio_out != out->bytes * ratio_in || !in->bytes)
        return 0;
    if (!caller_may_overlap(self, call, in, out))
        return 0;
    size_t count = (ratio_in > 1 ? out->bytes : in->bytes) / (size_t)in->itemsize;
    if (call->collective == WEIR_COLL_ALLTOALL) {
        if (count % n)
            return 0;
        count /= n;
    }
    call->dtype = (weir_dtype)in->dtype;
    call->in = in->data;
    call->out = out->data;
    call->count = count;
    return 1;
}

static int caller_run_spans(caller *self, weir_call *call, const native_span *in,
                            const native_span *out, int ordered)
{
    void *stream = NULL;
    if (!caller_fill(self, call, in, out))
        return NATIVE_DECLINED;
    if (self->device >= 0) {
        if (!native_span_stream(in, &stream))
            return NATIVE_DECLINED;
        if (ordered && (!self->has_stream || self->stream != stream))
            return NATIVE_DECLINED;
    }
    call->stream = stream;
    return caller_execute(self, call);
}

int native_caller_run(PyObject *object, weir_collective collective, PyObject *data, PyObject *out,
                      PyObject *op, long root, int ordered)
{
    caller *self = (caller *)object;
    weir_call call = WEIR_CALL_INIT;
    native_span in, target;
    int number = caller_op(op), status = NATIVE_DECLINED;
    int is_in_place = !out || out == Py_None || out == data;
    int may_be_in_place = collective == WEIR_COLL_ALLREDUCE || collective == WEIR_COLL_BROADCAST ||
                          collective == WEIR_COLL_REDUCE;
    if (!self->comm || number < 0 || root < 0 || root >= self->size ||
        (is_in_place && !may_be_in_place) || !native_span_read(data, &in))
        return NATIVE_DECLINED;
    call.collective = collective;
    call.op = (weir_op)number;
    call.root = (int)root;
    if (is_in_place) {
        status = caller_run_spans(self, &call, &in, &in, ordered);
    } else if (native_span_read(out, &target)) {
        status = caller_run_spans(self, &call, &in, &target, ordered);
        native_span_release(&target);
    }
    native_span_release(&in);
    return status;
}

/* ------------------------------------------------------------------------------- methods */

/* run(collective, data, out, op, root, ordered) -> weir_status or 1 */
static PyObject *caller_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "run takes collective, data, out, op, root and ordered");
        return NULL;
    }
    long collective = PyLong_AsLong(arguments[0]), root = PyLong_AsLong(arguments[4]);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return PyLong_FromLong(NATIVE_DECLINED);
    }
    return PyLong_FromLong(native_caller_run(self, (weir_collective)collective, arguments[1],
                                             arguments[2], arguments[3], root,
                                             arguments[5] == Py_True));
}

/* start(address of a weir_call) -> weir_status or 1 */
static PyObject *caller_start(PyObject *self, PyObject *address)
{
    const weir_call *call = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(caller_execute((caller *)self, call));
}

static PyObject *caller_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    caller_lock((caller *)self);
    Py_RETURN_NONE;
}

static PyObject *caller_exit(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    (void)arguments, (void)count;
    caller_unlock((caller *)self);
    Py_RETURN_NONE;
}

static PyObject *caller_locked(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(((caller *)self)->is_locked);
}

static PyObject *caller_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((caller *)self)->comm = NULL;
    Py_RETURN_NONE;
}

/* follow(stream): the stream of the latest call; None: unknown */
static PyObject *caller_follow(PyObject *object, PyObject *stream)
{
    caller *self = (caller *)object;
    self->has_stream = stream != Py_None;
    self->stream = self->has_stream ? PyLong_AsVoidPtr(stream) : NULL;
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *caller_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *comm;
    int device, size, rank;
    (void)names;
    if (!PyArg_ParseTuple(arguments, "Oiii", &comm, &device, &size, &rank))
        return NULL;
    void *handle = PyLong_AsVoidPtr(comm);
    if (PyErr_Occurred())
        return NULL;
    allocfunc allocate = (allocfunc)(uintptr_t)PyType_GetSlot(type, Py_tp_alloc);
    caller *self = (caller *)allocate(type, 0);
    if (!self)
        return NULL;
    self->comm = handle;
    self->device = device;
    self->size = size;
    self->rank = rank;
    self->lock = PyThread_allocate_lock();
    if (self->lock)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

static void caller_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (((caller *)self)->lock)
        PyThread_free_lock(((caller *)self)->lock);
    ((freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef caller_methods[] = {
    {"run", (PyCFunction)(void (*)(void))caller_run, METH_FASTCALL, NULL},
    {"start", caller_start, METH_O, NULL},
    {"follow", caller_follow, METH_O, NULL},
    {"locked", caller_locked, METH_NOARGS, NULL},
    {"close", caller_close, METH_NOARGS, NULL},
    {"__enter__", caller_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))caller_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef caller_members[] = {
    {"calls", T_ULONGLONG, offsetof(caller, calls), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot caller_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)caller_new},
    {Py_tp_dealloc, (void *)(uintptr_t)caller_free},
    {Py_tp_methods, caller_methods},
    {Py_tp_members, caller_members},
    {0, NULL},
};

PyObject *native_caller_type(void)
{
    static PyType_Spec spec = {"weir._native.Caller", sizeof(caller), 0, Py_TPFLAGS_DEFAULT,
                               caller_slots};
    return PyType_FromSpec(&spec);
}
