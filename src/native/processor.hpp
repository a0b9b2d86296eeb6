// What the processor can do, and what the system keeps of it when it switches tasks.
#pragma once

#include <cpuid.h>

namespace inferl {

// Asked by hand: what compilers have for it, __builtin_cpu_supports, needs a library that not every compiler brings.
struct Processor {
    bool avx2 = false;    // with fused products and sums
    bool avx512 = false;  // F and DQ

    Processor() {
        unsigned a, b, c, d;
        if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
        const bool fused = c & bit_FMA;
        unsigned kept, rest;
        asm volatile("xgetbv" : "=a"(kept), "=d"(rest) : "c"(0));
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        avx2 = fused && (b & bit_AVX2) && (kept & 0x06) == 0x06;
        avx512 = fused && (b & bit_AVX512F) && (b & bit_AVX512DQ) && (kept & 0xe6) == 0xe6;
    }
};

}  // namespace inferl
