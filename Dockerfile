# Aqueduct in an image of one static program. Every RUN below uses paths relative to its
# WORKDIR, so that test/docker can run this file's commands without a container engine.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o out/aqueduct ./cmd/aqueduct
RUN mkdir -p out/data

FROM scratch
COPY --from=build /src/out/aqueduct /aqueduct
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /src/out/data /data
USER 65532:65532
WORKDIR /data
# Off loopback Aqueduct wants a bearer token. Mount it as a file:
#   docker run -p 8080:8080 -v aqueduct:/data -v ./token:/run/secrets/token:ro aqueduct
ENV AQUEDUCT_LISTEN=0.0.0.0:8080 \
    AQUEDUCT_DATABASE=sqlite:/data/aqueduct.db \
    AQUEDUCT_AUTH=token \
    AQUEDUCT_TOKEN_FILE=/run/secrets/token
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/aqueduct"]
CMD ["serve"]
