/*
 * Elementary functions in plain arithmetic, for the kernels that need them.
 *
 * C libraries round exp, log, sin and cos differently, and a kernel's result must not depend on
 * the library. These are reduced Taylor series, good to about 1e-15 relative (exp, log) or absolute
 * (sin, cos), and the same to the bit wherever IEEE 754 holds.
 */
#ifndef PERDURE_KERNEL_MATH_H
#define PERDURE_KERNEL_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double PI = 0x1.921fb54442d18p+1;

/* 2 to the power of a whole exponent in the normal range. */
static inline double exact_power_of_two(int exponent)
{
    const uint64_t word = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &word, sizeof power);
    return power;
}

/* The whole number nearest to x, for |x| below 2^31. */
static inline int nearest(double x)
{
    return (int)(x < 0 ? x - 0.5 : x + 0.5);
}

/* e to the power of x; 0 below and clipped above the range of normal numbers. */
static inline double exponential(double x)
{
    if (x < -708.0) {
        return 0.0;
    }
    if (x > 709.0) {
        x = 709.0;
    }
    const int exponent = nearest(x * 0x1.71547652b82fep+0);
    const double high = x - exponent * 0x1.62e42feep-1;
    const double rest = high - exponent * 0x1.a39ef35793c76p-33;
    double sum = 1.0;
    for (int k = 14; k >= 1; k--) {
        sum = 1.0 + sum * rest / k;
    }
    return sum * exact_power_of_two(exponent);
}

/* The natural logarithm of a positive normal number, by 2 artanh((m-1)/(m+1)). */
static inline double logarithm(double x)
{
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    int exponent = (int)(word >> 52) - 1023;
    word = (word & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double mantissa;
    memcpy(&mantissa, &word, sizeof mantissa);
    if (mantissa > 0x1.6a09e667f3bcdp+0) {
        mantissa *= 0.5;
        exponent++;
    }
    const double ratio = (mantissa - 1.0) / (mantissa + 1.0);
    const double square = ratio * ratio;
    double sum = 0.0;
    for (int k = 21; k >= 1; k -= 2) {
        sum = sum * square + 1.0 / k;
    }
    return exponent * 0x1.62e42fefa39efp-1 + 2.0 * ratio * sum;
}

/* Sine and cosine of an angle in radians, |angle| below 2^30. */
static inline void sine_and_cosine(double angle, double *sine, double *cosine)
{
    const int quarter = nearest(angle * (2.0 / PI));
    const double high = angle - quarter * 0x1.921fb544p+0;
    const double rest = high - quarter * 0x1.0b4611a626331p-34;
    const double square = rest * rest;
    double s = 1.0;
    double c = 1.0;
    for (int k = 9; k >= 1; k--) {
        s = 1.0 - s * square / ((2 * k) * (2 * k + 1));
        c = 1.0 - c * square / ((2 * k - 1) * (2 * k));
    }
    s *= rest;
    const int turn = quarter & 3;
    *sine = turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c;
    *cosine = turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s;
}

#endif
