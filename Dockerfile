# The base image of indexes, with opm, its companions and grpc_health_probe in /bin:
#
#   docker build --tag quay.io/me/opmkit:1 .
#   opm index add --binary-image quay.io/me/opmkit:1 ...
#
# scripts/build-runtime makes the same without an engine, from the Python at hand.
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
COPY . /src
RUN OPMKIT_VENV=/venv OPMKIT_INSTALL=no /src/scripts/build-runtime --directory /rootfs

FROM scratch
COPY --from=build /rootfs/ /
ENV PATH=/bin LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 1001
EXPOSE 50051
ENTRYPOINT ["/bin/opm"]
