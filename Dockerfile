# Keywork, and the nats-server that it can embed, in one small image.

FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package keywork --bin keywork

# The version that Keywork is tested with.
FROM nats:2.15.1 AS nats

FROM debian:bookworm-slim
RUN groupadd --gid 10001 keywork \
    && useradd --uid 10001 --gid keywork --home-dir /var/lib/keywork --shell /usr/sbin/nologin keywork \
    && install --directory --owner keywork --group keywork --mode 700 /var/lib/keywork
# For NATS by TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=nats /nats-server /usr/local/bin/nats-server
COPY --from=build /src/target/release/keywork /usr/local/bin/keywork
# A number, so that it can be seen from outside that it is not root.
USER 10001:10001
ENV KEYWORK_LISTEN=0.0.0.0:50051 KEYWORK_DATA_DIR=/var/lib/keywork
VOLUME /var/lib/keywork
EXPOSE 50051
ENTRYPOINT ["keywork"]
# Without --nats-url it runs a nats-server of its own, with its data in the data directory.
CMD ["serve"]
