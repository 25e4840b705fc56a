"""What the tests of object stores ask of the store by another client than linecard's: boto3.

    store.py ENDPOINT users BUCKET...       makes a user, prints its keys, makes the buckets; from now on requests are checked
    store.py ENDPOINT put BUCKET KEY FILE   stores an object
    store.py ENDPOINT list BUCKET           a line for each object: its length, its MD5, its key
    store.py ENDPOINT parts BUCKET          a line for each upload that is not finished
"""

import hashlib
import json
import sys
import urllib.request

import boto3

endpoint, command, *arguments = sys.argv[1:]


def client(name):
    return boto3.client(name, endpoint_url=endpoint, region_name="us-east-1")


if command == "users":
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam = client("iam")
    iam.create_user(UserName="test")
    iam.put_user_policy(UserName="test", PolicyName="all", PolicyDocument=json.dumps(policy))
    keys = iam.create_access_key(UserName="test")["AccessKey"]
    for bucket in arguments:
        client("s3").create_bucket(Bucket=bucket)
    # Until now, moto has believed everybody.
    plain = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", plain)).read()
    print(keys["AccessKeyId"], keys["SecretAccessKey"])
elif command == "put":
    bucket, key, file = arguments
    with open(file, "rb") as body:
        client("s3").put_object(Bucket=bucket, Key=key, Body=body)
elif command == "list":
    for page in client("s3").get_paginator("list_objects_v2").paginate(Bucket=arguments[0]):
        for entry in page.get("Contents", []):
            body = client("s3").get_object(Bucket=arguments[0], Key=entry["Key"])["Body"].read()
            print(len(body), hashlib.md5(body).hexdigest(), entry["Key"])
elif command == "parts":
    for upload in client("s3").list_multipart_uploads(Bucket=arguments[0]).get("Uploads", []):
        print(upload["Key"])
else:
    sys.exit(__doc__)
