build_cuda/obj/lib/coll/cuda/launch/run_cuda.o: \
 lib/coll/cuda/launch/run_cuda.c lib/coll/cuda/launch/run_cuda.h \
 lib/coll/coll.h lib/compute/reduce.h lib/include/weir/weir.h \
 lib/comm/comm.h lib/include/weir/target.h lib/base/fork.h \
 lib/comm/gpu/gpu_view.h lib/include/weir/device.h \
 lib/transport/transport.h lib/coll/cuda/kernels.h lib/coll/cuda/args.h \
 lib/base/error.h lib/coll/algos.h lib/comm/gpu/gpu_cuda.h \
 lib/comm/gpu/gpu.h
lib/coll/cuda/launch/run_cuda.h:
lib/coll/coll.h:
lib/compute/reduce.h:
lib/include/weir/weir.h:
lib/comm/comm.h:
lib/include/weir/target.h:
lib/base/fork.h:
lib/comm/gpu/gpu_view.h:
lib/include/weir/device.h:
lib/transport/transport.h:
lib/coll/cuda/kernels.h:
lib/coll/cuda/args.h:
lib/base/error.h:
lib/coll/algos.h:
lib/comm/gpu/gpu_cuda.h:
lib/comm/gpu/gpu.h:
