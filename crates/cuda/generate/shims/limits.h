#pragma once
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
