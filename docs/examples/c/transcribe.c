/* transcribe MODEL.onnx SOUND.wav: the text, by ONNX Runtime's C interface (1.20 or later).
 *
 *   cc -std=c11 -O2 -I ORT/include transcribe.c -o transcribe -L ORT/lib -lonnxruntime -Wl,-rpath,ORT/lib
 *
 * ORT is an unpacked onnxruntime-linux-*.tgz of ONNX Runtime's releases (or osx, win), which has include and lib;
 * Python's and npm's packages have the library, but no header.
 *
 * The WAV file has 16-bit mono samples at the model's rate, 16 kHz. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime_c_api.h"

static const OrtApi *ort;

static void check(OrtStatus *status) {
    if (status == NULL) return;
    fprintf(stderr, "onnxruntime: %s\n", ort->GetErrorMessage(status));
    exit(1);
}

static void *must(void *memory) {
    if (memory != NULL) return memory;
    fputs("not enough memory\n", stderr);
    exit(1);
}

static uint32_t little_endian(const unsigned char *bytes) {
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The samples of a WAV file's chunk "data", full scale ±1. */
static float *read_wav(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    unsigned char head[16], pair[2];
    if (file == NULL || fread(head, 1, 12, file) != 12 || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4)) {
        fprintf(stderr, "%s: no WAV file\n", path);
        exit(1);
    }
    while (fread(head, 1, 8, file) == 8) {
        uint32_t size = little_endian(head + 4);
        if (memcmp(head, "data", 4) == 0) {
            float *samples = must(malloc(size / 2 * sizeof *samples + 1));
            for (*count = 0; *count < size / 2 && fread(pair, 1, 2, file) == 2; ++*count)
                samples[*count] = (int16_t)(pair[0] | pair[1] << 8) / 32768.0f;
            fclose(file);
            return samples;
        }
        if (memcmp(head, "fmt ", 4) == 0 && size >= 16) {
            if (fread(head, 1, 16, file) != 16 || head[2] != 1 || little_endian(head + 4) != 16000 || head[14] != 16) {
                fprintf(stderr, "%s: not 16-bit mono sound of 16 kHz\n", path);
                exit(1);
            }
            size -= 16;
        }
        fseek(file, size + (size & 1), SEEK_CUR); /* chunks begin at even places */
    }
    fprintf(stderr, "%s: holds no samples\n", path);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL.onnx SOUND.wav\n", argv[0]);
        return 2;
    }
    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    if (ort == NULL) {
        fputs("the library is older than the header that this was compiled with\n", stderr);
        return 1;
    }
    OrtEnv *environment;
    OrtSessionOptions *options;
    OrtSession *session;
    OrtMemoryInfo *memory;
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "transcribe", &environment));
    check(ort->CreateSessionOptions(&options));
    check(ort->CreateSession(environment, argv[1], options, &session));
    check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));

    size_t count;
    float *samples = read_wav(argv[2], &count);
    const int64_t shape[] = {1, (int64_t)count};
    const char *inputs[] = {"samples"}, *outputs[] = {"pieces", "count", "score"};
    OrtValue *sound, *found[3] = {NULL, NULL, NULL};
    check(ort->CreateTensorWithDataAsOrtValue(memory, samples, count * sizeof *samples, shape, 2,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &sound));
    check(ort->Run(session, NULL, inputs, (const OrtValue *const *)&sound, 1, outputs, 3, found));

    int64_t *tokens;
    float *score;
    size_t length;
    check(ort->GetTensorMutableData(found[1], (void **)&tokens));
    check(ort->GetTensorMutableData(found[2], (void **)&score));
    check(ort->GetStringTensorDataLength(found[0], &length));
    /* One string after the other, without a zero between them: the text, after one space */
    char *text = must(calloc(length + 1, 1));
    size_t *offsets = must(calloc((size_t)*tokens + 1, sizeof *offsets));
    if (*tokens > 0) check(ort->GetStringTensorContent(found[0], text, length, offsets, (size_t)*tokens));
    printf("%s\n", text[0] == ' ' ? text + 1 : text);
    fprintf(stderr, "%lld tokens, score %.3f\n", (long long)*tokens, *score);

    for (int i = 0; i < 3; i++) ort->ReleaseValue(found[i]);
    ort->ReleaseValue(sound);
    ort->ReleaseMemoryInfo(memory);
    ort->ReleaseSession(session);
    ort->ReleaseSessionOptions(options);
    ort->ReleaseEnv(environment);
    free(samples);
    free(text);
    free(offsets);
    return 0;
}
