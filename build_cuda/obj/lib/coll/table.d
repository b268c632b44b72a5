build_cuda/obj/lib/coll/table.o: lib/coll/table.c lib/coll/algos.h \
 lib/coll/coll.h lib/compute/reduce.h lib/include/weir/weir.h \
 lib/comm/comm.h lib/include/weir/target.h lib/base/fork.h \
 lib/comm/gpu/gpu_view.h lib/include/weir/device.h \
 lib/transport/transport.h lib/coll/cuda/kernels.h lib/coll/cuda/args.h
lib/coll/algos.h:
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
