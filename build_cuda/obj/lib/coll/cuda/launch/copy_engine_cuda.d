build_cuda/obj/lib/coll/cuda/launch/copy_engine_cuda.o: \
 lib/coll/cuda/launch/copy_engine_cuda.c \
 lib/coll/cuda/launch/copy_engine_cuda.h \
 lib/coll/cuda/launch/copy_engine.h lib/coll/cuda/kernels.h \
 lib/coll/cuda/args.h lib/comm/gpu/gpu_view.h lib/include/weir/device.h \
 lib/include/weir/target.h lib/include/weir/weir.h \
 lib/coll/cuda/launch/run_cuda.h lib/coll/coll.h lib/compute/reduce.h \
 lib/comm/comm.h lib/base/fork.h lib/transport/transport.h \
 lib/base/error.h lib/coll/algos.h lib/comm/gpu/gpu_cuda.h \
 lib/comm/gpu/gpu.h
lib/coll/cuda/launch/copy_engine_cuda.h:
lib/coll/cuda/launch/copy_engine.h:
lib/coll/cuda/kernels.h:
lib/coll/cuda/args.h:
lib/comm/gpu/gpu_view.h:
lib/include/weir/device.h:
lib/include/weir/target.h:
lib/include/weir/weir.h:
lib/coll/cuda/launch/run_cuda.h:
lib/coll/coll.h:
lib/compute/reduce.h:
lib/comm/comm.h:
lib/base/fork.h:
lib/transport/transport.h:
lib/base/error.h:
lib/coll/algos.h:
lib/comm/gpu/gpu_cuda.h:
lib/comm/gpu/gpu.h:
