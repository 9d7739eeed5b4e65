# The README's two commands in a container: docker build -t eqa . && docker run --rm -it -v eqa:/eqa eqa
# The tests: docker run --rm eqa sh -c "pip install -r requirements-test.txt && pytest"
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /project
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
COPY . .
RUN pip install --no-cache-dir -r requirements.txt
# Data and runs stay in the volume.
ENV EQA_DATA=/eqa/data
RUN mkdir -p /eqa/runs && ln -s /eqa/runs runs
VOLUME /eqa
CMD ["python", "train.py", "+experiment=il"]
