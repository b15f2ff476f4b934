# Flags of the CPU backend's kernels: one file an instruction set, chosen at run time. -O3 in every build type: their
# loops live from unrolling, and a debug build that takes minutes for a token helps nobody.
set(di_cpu ${CMAKE_SOURCE_DIR}/src/backend/cpu)
set_source_files_properties(${di_cpu}/generic_kernels.cpp ${di_cpu}/neon_kernels.cpp PROPERTIES COMPILE_OPTIONS "-O3")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # g++ 12 warns about its own avx512fintrin.h (undefined vectors that are meant to be so).
  set(di_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND di_avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${di_cpu}/avx2_kernels.cpp PROPERTIES COMPILE_OPTIONS "-O3;-mavx2;-mfma;-mf16c")
  set_source_files_properties(${di_cpu}/avx512_kernels.cpp PROPERTIES COMPILE_OPTIONS "-O3;${di_avx512}")
  set_source_files_properties(${di_cpu}/avx512bf16_kernels.cpp PROPERTIES COMPILE_OPTIONS "-O3;${di_avx512};-mavx512bf16")
endif()

# Under an emulator the whole sweep of the contract test takes many minutes.
if(CMAKE_CROSSCOMPILING AND DI_TESTS)
  set_tests_properties(backend_test PROPERTIES ENVIRONMENT DEEPINFER_CONTRACT_SWEEP=small)
endif()
