/* Stands in for ONNX Runtime's header, which comes with its releases alone and not with its Python package, where the
 * library is: what docs/examples/c calls, at the places that the interface keeps for it from version to version. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define ORT_API_VERSION 20

typedef struct OrtEnv OrtEnv;
typedef struct OrtStatus OrtStatus;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtValue OrtValue;
typedef enum { ORT_LOGGING_LEVEL_ERROR = 3 } OrtLoggingLevel;
typedef enum { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 } ONNXTensorElementDataType;
typedef enum { OrtDeviceAllocator = 0 } OrtAllocatorType;
typedef enum { OrtMemTypeDefault = 0 } OrtMemType;

typedef struct OrtApi {
    void *from_0[2];
    const char *(*GetErrorMessage)(const OrtStatus *);
    OrtStatus *(*CreateEnv)(OrtLoggingLevel, const char *, OrtEnv **);
    void *from_4[3];
    OrtStatus *(*CreateSession)(const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **);
    void *from_8[1];
    OrtStatus *(*Run)(OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *, size_t,
                      const char *const *, size_t, OrtValue **);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **);
    void *from_11[38];
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t,
                                                 ONNXTensorElementDataType, OrtValue **);
    void *from_50[1];
    OrtStatus *(*GetTensorMutableData)(OrtValue *, void **);
    void *from_52[1];
    OrtStatus *(*GetStringTensorDataLength)(const OrtValue *, size_t *);
    OrtStatus *(*GetStringTensorContent)(const OrtValue *, void *, size_t, size_t *, size_t);
    void *from_55[14];
    OrtStatus *(*CreateCpuMemoryInfo)(OrtAllocatorType, OrtMemType, OrtMemoryInfo **);
    void *from_70[22];
    void (*ReleaseEnv)(OrtEnv *);
    void (*ReleaseStatus)(OrtStatus *);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *);
    void (*ReleaseSession)(OrtSession *);
    void (*ReleaseValue)(OrtValue *);
    void *from_97[3];
    void (*ReleaseSessionOptions)(OrtSessionOptions *);
} OrtApi;

typedef struct {
    const OrtApi *(*GetApi)(uint32_t);
    const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);
