"""The texts of the WMT'14 page, and the test sets, which sacreBLEU fetches and whose digests it checks."""

localrules: download, unpack, download_news, test_set

FETCH = "curl --fail --location --retry 3 --output {output} {params.url}"

rule download:
    output: temp("downloads/{text}.tar")
    params: url=lambda wildcards: PARALLEL[wildcards.text]["url"]
    shell: FETCH

def member(wildcards):
    return PARALLEL[wildcards.text]["member"].format(language=wildcards.language)

rule unpack:
    "A text out of its archive; what is compressed in there stays so."
    input: "downloads/{text}.tar"
    output: "raw/{text}.{language}.gz"
    wildcard_constraints: text="|".join(PARALLEL)
    params: member=member, pack=lambda wildcards: "cat" if member(wildcards).endswith(".gz") else "gzip"
    shell: "tar -xOf {input} {params.member} | {params.pack} > {output}"

rule download_news:
    output: "raw/news-{year,\\d+}.fr.gz"
    params: url=lambda wildcards: config["monolingual"]["url"].format(year=wildcards.year)
    shell: FETCH

rule test_set:
    output: "raw/{text}.{language}.gz"
    wildcard_constraints: text="|".join(TEST_SETS)
    params: name=lambda wildcards: TEST_SETS[wildcards.text], side=lambda wildcards: {"en": "src", "fr": "ref"}[wildcards.language]
    shell: "sacrebleu --test-set {params.name} --language-pair en-fr --echo {params.side} | gzip > {output}"
