# syntax=docker/dockerfile:1
# The images of zonewise: the agent's, and the scheduler's, which has NumPy. From the repository's root:
#
#     docker build --tag zonewise:0.1.0 .
#     docker build --tag zonewise-scheduler:0.1.0 --build-arg PART=scheduler .
#
# Images are pinned by tag. To pin what is behind a tag as well, write its digest behind it, `debian:13-slim@sha256:...`,
# as `docker buildx imagetools inspect debian:13-slim` prints it.

# agent or scheduler
ARG PART=agent

FROM ghcr.io/astral-sh/uv:0.13.8 AS uv

# The same Debian as below: the environment made here is for the Python there, which is at the same path.
FROM debian:13-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=uv /uv /usr/local/bin/uv
# Bytecode is compiled: on a read-only file system nothing would ever do it later, and resident memory would double.
# Without docstrings and assertions, which have no use there: 1.5 MiB less.
ENV PYTHONOPTIMIZE=2 \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PROJECT_ENVIRONMENT=/opt/zonewise \
    UV_PYTHON=/usr/bin/python3 \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /src
ARG PART
# the dependencies in a layer of their own, which a change of the code leaves as it is
RUN --mount=type=cache,target=/root/.cache/uv \
    --mount=type=bind,source=pyproject.toml,target=pyproject.toml \
    --mount=type=bind,source=uv.lock,target=uv.lock \
    uv sync --locked --no-default-groups --extra ${PART} --no-install-project
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY agent agent
COPY common common
COPY scheduler scheduler
# The version, since git is not in here. `make image` passes that of the newest tag.
ARG VERSION=0.1.0.dev0
ENV SETUPTOOLS_SCM_PRETEND_VERSION=${VERSION}
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --extra ${PART} --no-editable
# Where the DaemonSet mounts the host's files (--root=/host). /proc is the container's own: see the DaemonSet.
RUN mkdir -p /root-of-image/host && ln -s /proc /root-of-image/host/proc

FROM gcr.io/distroless/python3-debian13:nonroot AS both
# The level of the bytecode compiled above; and one heap for all threads, which are few: 0.2 MiB less.
ENV PYTHONOPTIMIZE=2 \
    MALLOC_ARENA_MAX=1
# Debian compiles the standard library when its packages are installed, and a distroless image only unpacks them. Without
# bytecode each start would cost 0.35 s of CPU more, and 4 MiB.
USER 0:0
RUN ["/usr/bin/python3", "-m", "compileall", "-q", "/usr/lib/python3.13"]
COPY --from=build /opt/zonewise /opt/zonewise
COPY --from=build /root-of-image/ /
# a pod that needs root sets it, as the DaemonSet does
USER 65532:65532
ENTRYPOINT ["/opt/zonewise/bin/zonewise"]

FROM both AS agent
LABEL org.opencontainers.image.title="zonewise" \
      org.opencontainers.image.description="Sees what a Kubernetes node is made of and what is free, zone by zone"
CMD ["agent"]

FROM both AS scheduler
LABEL org.opencontainers.image.title="zonewise-scheduler" \
      org.opencontainers.image.description="Tells kube-scheduler which node's kubelet will take a pod, zone by zone"
CMD ["scheduler", "--extender-only"]

FROM ${PART}
