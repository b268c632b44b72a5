/*
 * Address, length and type of arrays: NumPy arrays by the buffer protocol and their dtype object,
 * tensors by the exchange functions of DLPack (`__dlpack_c_exchange_api__` of their type), other
 * objects by the buffer protocol alone. Types of tensors are compared exactly: subclasses may mean
 * something else by their memory, and are left to Python.
 */
#include "native.h"

#include <string.h>

/* Of DLPack 1.2: the parts that are used here, laid out as in dlpack.h. */
typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct native_exchange {
    uint32_t major, minor;
    struct native_exchange *previous;
    void *allocate, *managed_from_object, *managed_to_object;
    int (*tensor_from_object)(void *object, dl_tensor *tensor);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream);
} native_exchange;

enum { DL_CPU = 1, DL_CUDA = 2, TENSOR_TYPES_MAX = 4, ARRAY_TYPES_MAX = 16 };

/* Types of tensors, and the type numpy.ndarray with its dtype objects, which live for ever. */
static struct {
    PyTypeObject *type;
    const native_exchange *exchange;
} tensor_types[TENSOR_TYPES_MAX];
static PyTypeObject *array_type;
static struct {
    PyObject *dtype;
    int number;
} array_dtypes[ARRAY_TYPES_MAX];
static PyObject *dtype_name;

static int span_dtype_of_dlpack(unsigned code, unsigned bits)
{
    switch (code << 8 | bits) {
    case 0 << 8 | 8:
        return WEIR_INT8;
    case 1 << 8 | 8:
        return WEIR_UINT8;
    case 0 << 8 | 32:
        return WEIR_INT32;
    case 1 << 8 | 32:
        return WEIR_UINT32;
    case 0 << 8 | 64:
        return WEIR_INT64;
    case 1 << 8 | 64:
        return WEIR_UINT64;
    case 2 << 8 | 16:
        return WEIR_HALF;
    case 2 << 8 | 32:
        return WEIR_FLOAT;
    case 2 << 8 | 64:
        return WEIR_DOUBLE;
    case 4 << 8 | 16:
        return WEIR_BFLOAT16;
    case 10 << 8 | 8:
        return WEIR_FP8_E4M3;
    case 12 << 8 | 8:
        return WEIR_FP8_E5M2;
    default:
        return -1;
    }
}

/* Returns the elements of a tensor; -1 if it is not contiguous in C order. */
static int64_t span_elements(const dl_tensor *tensor)
{
    int64_t count = 1, expected = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        int64_t length = tensor->shape[i];
        if (tensor->strides && length > 1 && tensor->strides[i] != expected)
            return -1;
        expected *= length;
        count *= length;
    }
    return count;
}

static int span_read_tensor(PyObject *object, const native_exchange *exchange, native_span *span)
{
    dl_tensor tensor;
    if (exchange->tensor_from_object(object, &tensor) != 0) {
        PyErr_Clear();
        return 0;
    }
    int64_t count = span_elements(&tensor);
    int dtype = span_dtype_of_dlpack(tensor.code, tensor.bits);
    if (count < 0 || dtype < 0 || tensor.lanes != 1 ||
        (tensor.device_type != DL_CPU && tensor.device_type != DL_CUDA))
        return 0;
    span->data = (char *)tensor.data + tensor.byte_offset;
    span->itemsize = tensor.bits / 8;
    span->bytes = (size_t)count * (size_t)span->itemsize;
    span->dtype = dtype;
    span->device = tensor.device_type == DL_CPU ? -1 : tensor.device_id;
    span->is_readonly = 0;
    span->exchange = exchange;
    return 1;
}

/* Finds the weir type of a format of the buffer protocol. */
static int span_dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    if (!format)
        return WEIR_UINT8;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (!format[0] || format[1])
        return -1;
    int is_signed = strchr("bilq", format[0]) != NULL;
    if (is_signed || strchr("BILQ", format[0]))
        switch (itemsize) {
        case 1:
            return is_signed ? WEIR_INT8 : WEIR_UINT8;
        case 4:
            return is_signed ? WEIR_INT32 : WEIR_UINT32;
        case 8:
            return is_signed ? WEIR_INT64 : WEIR_UINT64;
        default:
            return -1;
        }
    switch (format[0]) {
    case 'e':
        return WEIR_HALF;
    case 'f':
        return WEIR_FLOAT;
    case 'd':
        return WEIR_DOUBLE;
    default:
        return -1;
    }
}

static int span_dtype_of_array(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, dtype_name);
    int found = -1;
    if (!dtype) {
        PyErr_Clear();
        return -1;
    }
    for (int i = 0; i < ARRAY_TYPES_MAX && array_dtypes[i].dtype && found < 0; i++)
        if (array_dtypes[i].dtype == dtype)
            found = array_dtypes[i].number;
    Py_DECREF(dtype);
    return found;
}

static int span_read_buffer(PyObject *object, native_span *span)
{
    int is_array = Py_TYPE(object) == array_type;
    /* NumPy takes longer if it is asked for a format. */
    int dtype = is_array ? span_dtype_of_array(object) : -1;
    int flags = PyBUF_C_CONTIGUOUS | (is_array ? 0 : PyBUF_FORMAT);
    if ((is_array && dtype < 0) || PyObject_GetBuffer(object, &span->view, flags) != 0) {
        PyErr_Clear();
        span->view.obj = NULL;
        return 0;
    }
    if (!is_array)
        dtype = span_dtype_of_format(span->view.format, span->view.itemsize);
    if (dtype < 0) {
        PyBuffer_Release(&span->view);
        return 0;
    }
    span->data = span->view.buf;
    span->bytes = (size_t)span->view.len;
    span->dtype = dtype;
    span->itemsize = (int)span->view.itemsize;
    span->device = -1;
    span->is_readonly = span->view.readonly;
    return 1;
}

int native_span_read(PyObject *object, native_span *span)
{
    PyTypeObject *type = Py_TYPE(object);
    span->view.obj = NULL;
    span->exchange = NULL;
    for (int i = 0; i < TENSOR_TYPES_MAX && tensor_types[i].type; i++)
        if (tensor_types[i].type == type)
            return span_read_tensor(object, tensor_types[i].exchange, span);
    return PyObject_CheckBuffer(object) && span_read_buffer(object, span);
}

void native_span_release(native_span *span)
{
    if (span->view.obj)
        PyBuffer_Release(&span->view);
}

int native_span_stream(const native_span *span, void **stream)
{
    if (!span->exchange)
        return 0;
    if (span->exchange->current_stream(DL_CUDA, span->device, stream) == 0)
        return 1;
    PyErr_Clear();
    return 0;
}

/* read(array) -> (address, bytes, dtype, itemsize, device, is_readonly) or None */
PyObject *native_read(PyObject *module, PyObject *object)
{
    native_span span;
    (void)module;
    if (!native_span_read(object, &span))
        Py_RETURN_NONE;
    native_span_release(&span);
    return Py_BuildValue("NniiiN", PyLong_FromVoidPtr(span.data), (Py_ssize_t)span.bytes,
                         span.dtype, span.itemsize, span.device, PyBool_FromLong(span.is_readonly));
}

/* stream(tensor) -> the current stream of its library or None */
PyObject *native_stream(PyObject *module, PyObject *object)
{
    native_span span;
    void *stream;
    (void)module;
    if (!native_span_read(object, &span))
        Py_RETURN_NONE;
    int is_known = span.device >= 0 && native_span_stream(&span, &stream);
    native_span_release(&span);
    if (!is_known)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(stream);
}

/* learn_arrays(numpy.ndarray, [(dtype, weir_dtype), ...]) */
PyObject *native_learn_arrays(PyObject *module, PyObject *arguments)
{
    PyObject *type, *list;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO!", &type, &PyList_Type, &list))
        return NULL;
    Py_ssize_t count = PyList_Size(list);
    if (count >= ARRAY_TYPES_MAX)
        return PyErr_Format(PyExc_ValueError, "%zd data types; expected fewer than %d", count,
                            ARRAY_TYPES_MAX);
    if (!dtype_name && !(dtype_name = PyUnicode_InternFromString("dtype")))
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *dtype;
        int number;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "Oi", &dtype, &number))
            return NULL;
        Py_INCREF(dtype);
        array_dtypes[i].dtype = dtype;
        array_dtypes[i].number = number;
    }
    Py_INCREF(type);
    array_type = (PyTypeObject *)type;
    Py_RETURN_NONE;
}

/* learn_tensors(type, capsule): a type and its __dlpack_c_exchange_api__. Returns whether it is
 * served. */
PyObject *native_learn_tensors(PyObject *module, PyObject *arguments)
{
    PyObject *type, *capsule;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &type, &capsule))
        return NULL;
    const native_exchange *exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!exchange)
        return NULL;
    while (exchange && exchange->major != 1)
        exchange = exchange->previous;
    for (int i = 0; exchange && i < TENSOR_TYPES_MAX; i++)
        if (!tensor_types[i].type) {
            Py_INCREF(type);
            tensor_types[i].exchange = exchange;
            tensor_types[i].type = (PyTypeObject *)type;
            Py_RETURN_TRUE;
        }
    Py_RETURN_FALSE;
}
