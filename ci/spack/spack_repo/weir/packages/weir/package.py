# Spack's recipe of weir, for Spack 1.0 and later:
#
#     spack repo add ci/spack/spack_repo/weir
#     spack install weir +cuda cuda_arch=90
import os

from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Weir(MakefilePackage, CudaPackage):
    """Benchmarks, checks and libraries of collectives on host memory, GPUs and networks."""

    # The sources are this checkout, so that the recipe needs no address.
    homepage = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 6))
    git = homepage

    license("MIT", checked_by="weir")

    version("0.1.0", tag="v0.1.0")
    version("main", branch="main")

    variant("sqlite", default=True, description="stores of results in one file")
    variant("gsl", default=True, description="intervals, weir-compare, -report and -check (GPL)")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("expat")
    depends_on("hwloc@2:")
    depends_on("jansson")
    depends_on("protobuf-c")
    depends_on("zlib-api")
    depends_on("gsl", when="+gsl")
    depends_on("sqlite", when="+sqlite")
    depends_on("rdma-core", type="build")
    # No MPI: programs open that of their launcher at run time.

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs, as cuda_arch=90")
    conflicts("platform=darwin", msg="weir runs on Linux")

    def arguments(self):
        spec = self.spec
        arguments = [f"PREFIX={self.prefix}", f"CUDA={int('+cuda' in spec)}"]
        if "+cuda" in spec:
            arguments.append("SM=" + " ".join(spec.variants["cuda_arch"].value))
            arguments.append(f"NVCC={spec['cuda'].prefix.bin.nvcc}")
        return arguments

    def build(self, spec, prefix):
        make("all", "man", *self.arguments())

    def install(self, spec, prefix):
        make("install", *self.arguments())

    def setup_run_environment(self, env):
        env.set("WEIR_ROOT", self.prefix)
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)

    def check(self):
        """Runs nothing: the tests need what the programs do not, such as MPI, and install it."""

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        """Two ranks measure and verify."""
        Executable(self.prefix.bin.bench_allreduce)("-g", "2", "-b", "8", "-e", "1K", "-n", "20")
