/* Preloaded into scanners that are built on OpenSSL: they ask for h2 by ALPN, and show the certificate of SCAN_CERTIFICATE and SCAN_KEY.
   The agents' port wants both, and they have no options for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static void *asking(void *context) {
    int (*set)(void *, const unsigned char *, unsigned) = dlsym(RTLD_NEXT, "SSL_CTX_set_alpn_protos");
    int (*certificate)(void *, const char *, int) = dlsym(RTLD_NEXT, "SSL_CTX_use_certificate_file");
    int (*key)(void *, const char *, int) = dlsym(RTLD_NEXT, "SSL_CTX_use_PrivateKey_file");
    if (context && set) set(context, (const unsigned char *)"\2h2", 3);
    if (context && certificate && key && getenv("SCAN_CERTIFICATE") && getenv("SCAN_KEY")) {
        certificate(context, getenv("SCAN_CERTIFICATE"), 1 /* PEM */);
        key(context, getenv("SCAN_KEY"), 1);
    }
    return context;
}

void *SSL_CTX_new(const void *method) {
    void *(*make)(const void *) = dlsym(RTLD_NEXT, "SSL_CTX_new");
    return asking(make(method));
}

void *SSL_CTX_new_ex(void *library, const char *query, const void *method) {
    void *(*make)(void *, const char *, const void *) = dlsym(RTLD_NEXT, "SSL_CTX_new_ex");
    return asking(make(library, query, method));
}
