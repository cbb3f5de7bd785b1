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
# The state, and with it the token, is made in /data at the first start, and the log has a link that signs the page in once:
#   docker run --name aqueduct -p 127.0.0.1:8080:8080 -v aqueduct:/data aqueduct
#   docker exec aqueduct /aqueduct token show
# One of your own: AQUEDUCT_TOKEN_FILE names a file that its user 65532 alone can read (mode 0400).
ENV AQUEDUCT_LISTEN=0.0.0.0:8080 \
    AQUEDUCT_STATE=/data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/aqueduct"]
CMD ["serve"]
