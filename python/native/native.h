/*
 * What the files of the extension module weir._native share. The module makes calls on arrays that
 * need no examination by Python: it reads address, length and type of a NumPy array or a tensor in
 * C and calls weir_run. It declines everything else, errors included, and Python then makes the
 * call.
 *
 * The module uses CPython's stable ABI and does not link with libweir.so: Python passes the
 * addresses of the library's functions.
 */
#ifndef WEIR_PYTHON_NATIVE_H
#define WEIR_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <weir/weir.h>

/* The functions of libweir.so, set by weir._native.bind. */
typedef struct native_library {
    weir_status (*run)(weir_comm *, const weir_call *);
    weir_status (*mem_alloc)(weir_comm *, size_t, weir_mem **);
    void *(*mem_pointer)(const weir_mem *);
    void (*mem_free)(weir_mem *);
} native_library;
extern native_library native_weir;

/* Contiguous memory of one object. native_span_release must be called after native_span_read has
 * returned 1. */
typedef struct native_span {
    void *data;
    size_t bytes;
    int dtype, itemsize; /* a weir_dtype, and bytes of an element */
    int device;          /* a CUDA device number; -1: memory of the process */
    int is_readonly;
    const struct native_exchange *exchange; /* of a tensor; else NULL */
    Py_buffer view;                         /* of the buffer protocol; view.obj NULL: none */
} native_span;

/* Reads an object's memory. Returns 0, without a Python error, if it is not an array that this
 * module knows, not contiguous, or of a type that weir does not reduce. */
int native_span_read(PyObject *object, native_span *span);
void native_span_release(native_span *span);
/* Finds the current stream of the library that a tensor comes from. Returns 0 if there is none. */
int native_span_stream(const native_span *span, void **stream);

/* Functions of the module, for its table of methods. */
PyObject *native_read(PyObject *module, PyObject *object);
PyObject *native_stream(PyObject *module, PyObject *object);
PyObject *native_learn_arrays(PyObject *module, PyObject *arguments);
PyObject *native_learn_tensors(PyObject *module, PyObject *arguments);
PyObject *native_pool_open(PyObject *module, PyObject *arguments);
PyObject *native_pool_close(PyObject *module, PyObject *arguments);
PyObject *native_pool_memories(PyObject *module, PyObject *arguments);

/* Create the types Caller and Operator. */
PyObject *native_caller_type(void);
PyObject *native_operator_type(void);

enum { NATIVE_DECLINED = 1 };
/* Makes a call, if the arrays are ones that this module serves. `out` NULL or None: in place. `op`
 * is a name, root a number. ordered: only on the stream of the latest call. Returns a weir_status,
 * or NATIVE_DECLINED without a Python error. */
int native_caller_run(PyObject *caller, weir_collective collective, PyObject *data, PyObject *out,
                      PyObject *op, long root, int ordered);

#endif
